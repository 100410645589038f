"""Cases of the security of webhooks, over real HTTP."""

from __future__ import annotations

import ast
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

import taskengine
from taskengine.config import Config, Webhooks
from taskengine.lifecycle.parts import Parts
from taskengine.services.retention import Retention
from taskengine.services.webhooks import StrandedWebhooks
from taskengine.store import reports
from tests.support.make import Hands
from tests.support.webhooks import KEY, OLD_KEY, SOURCE, Site, event, register, serving, signed
from tests.support.webhooks import with_sources as _with_sources

SOURCE_FOLDER = Path(taskengine.__file__).parent
TOLERANCE = 120  # seconds, the default
EQUALS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


@pytest.fixture
def config(config: Config) -> Config:
    return _with_sources(config)


@pytest_asyncio.fixture
async def site(parts: Parts) -> AsyncIterator[Site]:
    await register(parts)
    async with serving(parts) as site:
        yield site


async def count(site: Site) -> int:
    return len(await site.rows("select from webhook_events"))


@pytest.mark.parametrize(
    "body",
    [
        b'{ "version":"1" ,\r\n "id":"e", "type":"payment.paid", "companyId":1, "amount":1.10 }\n',
        b'{"type":"payment.paid","id":"\\u00e9","companyId":1,"version":"1"}',
    ],
    ids=["spacing", "escapes"],
)
async def test_c94_the_signature_is_over_the_bytes_as_they_came(site: Site, body: bytes) -> None:
    assert (await site.post(body)).status_code == 200
    assert json.dumps(json.loads(body)).encode() != body
    [row] = await site.rows("select body from webhook_events")
    assert row["body"] == body


async def test_c95_emoji_and_bad_utf8_are_judged_after_the_signature(site: Site) -> None:
    emoji = event(note="☕🎉")
    raw = json.dumps(json.loads(emoji), ensure_ascii=False).encode()
    headers = signed(raw, site.now()) | {"content-type": "application/json; charset=iso-8859-1"}
    assert (await site.send(raw, headers)).status_code == 200
    bad = b'{"id": "\xff\xfe"}'
    assert (await site.post(bad)).status_code == 400
    assert (await site.send(bad, {})).status_code == 401
    assert await count(site) == 1


def test_c97_no_secret_is_compared_with_an_equals_sign() -> None:
    """What is called so meets `==` and `in` nowhere. (The engine's claim and lease tokens are drawn
    to be distinct, not to be secret, and there is no login of the dashboard yet.)"""
    words = {"signature", "signatures", "secret", "password", "digest", "hmac", "mac"}
    found = []
    for path in SOURCE_FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], EQUALS):
                continue
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            names |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            if any(words & set(name.lower().split("_")) for name in names):
                found.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    assert found == []
    assert "hmac.compare_digest(" in (SOURCE_FOLDER / "model" / "signatures.py").read_text()


async def test_c98_a_captured_request_is_refused_later_and_is_a_duplicate_now(site: Site) -> None:
    body = event()
    old = signed(body, site.now() - TOLERANCE - 1)
    assert (await site.send(body, old)).status_code == 401
    altered = old | {"x-everee-webhook-timestamp": str(site.now())}
    assert (await site.send(body, altered)).status_code == 401
    fresh = signed(body, site.now())
    answers = [await site.send(body, fresh) for _ in range(2)]
    assert [a.status_code for a in answers] == [200, 200]
    assert await count(site) == 1
    assert len(await site.rows("select from task_executions")) == 1


async def test_c99_the_future_has_the_same_bound(site: Site) -> None:
    assert (
        await site.send(event(), signed(event(), site.now() + TOLERANCE - 5))
    ).status_code == 200
    late = signed(event("e2"), site.now() + TOLERANCE + 5)
    assert (await site.send(event("e2"), late)).status_code == 401


@pytest.mark.parametrize(
    "stamp", ["-1", "NaN", "1e309", "1798761600000", "1_000", "", "1 23", "0x10", "9" * 400]
)
async def test_c99_a_stamp_that_is_none_is_refused_and_never_a_500(site: Site, stamp: str) -> None:
    """Not even where it is signed as it stands."""
    message = stamp.encode() + b"." + event()
    mac = hmac.new(KEY.encode(), message, hashlib.sha256).hexdigest()
    headers = {"x-everee-webhook-timestamp": stamp, "x-everee-webhook-signature": f"v1={mac}"}
    assert (await site.send(event(), headers)).status_code == 401
    arabic = signed(event(), site.now()) | {"x-everee-webhook-timestamp": "١٢٣".encode()}
    assert (await site.send(event(), arabic)).status_code == 401
    assert await count(site) == 0


async def test_c99_who_was_seen_is_known_long_after_the_tolerance(site: Site, hands: Hands) -> None:
    """An event's row stays when its body goes: a replay is a duplicate however late it comes."""
    await site.post(event())
    await hands.sql("update webhook_events set received_at = now() - interval '399 d', error = ''")
    await hands.sql("delete from task_executions")
    await Retention(hands.parts, hands.identity, hands.token).tick()
    [row] = await hands.sql("select body from webhook_events")
    assert row["body"] is None
    assert (await site.post(event())).json() == {"status": "duplicate"}
    assert await hands.sql("select from task_executions") == []


@pytest.mark.parametrize("keys", [(KEY,), (OLD_KEY,), (OLD_KEY, KEY)], ids=["new", "old", "both"])
async def test_c100_while_a_key_is_rotated_both_are_taken(
    site: Site, keys: tuple[str, ...]
) -> None:
    assert (await site.post(event(), *keys)).status_code == 200
    told = site.told("webhook.old_key")
    assert [each["key_index"] for each in told] == ([1] if keys == (OLD_KEY,) else [])
    assert OLD_KEY not in repr(site.events), "which one is told, not its value"


async def test_c100_after_it_the_old_one_is_refused(parts: Parts, config: Config) -> None:
    sources = {"everee": SOURCE | {"keys": [KEY]}}
    rotated = config.model_copy(update={"webhooks": Webhooks.model_validate({"sources": sources})})
    await register(parts)
    async with serving(replace(parts, config=rotated)) as site:
        assert (await site.post(event(), OLD_KEY)).status_code == 401
        assert (await site.post(event(), "")).status_code == 401
        assert (await site.post(event(), KEY)).status_code == 200


@pytest.mark.parametrize("keys", [[], [""], ["   "]], ids=["unset", "empty", "blank"])
def test_c101_without_a_key_the_start_is_refused(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="key"):
        Webhooks.model_validate({"sources": {"everee": SOURCE | {"keys": keys}}})


async def test_c103_an_older_event_keeps_its_own_time_and_the_oldest_is_recovered_first(
    site: Site, hands: Hands
) -> None:
    """Order is the job's to judge: it gets when the source says that it happened."""
    newer, older = event("v2", timestamp=1798761700), event("v1", timestamp=1798761600)
    assert (await site.post(newer)).status_code == (await site.post(older)).status_code == 200
    rows = await site.rows("select event_id, occurred_at from webhook_events order by occurred_at")
    assert [row["event_id"] for row in rows] == ["v1", "v2"]
    await hands.sql("delete from task_executions")
    await hands.sql(
        "update webhook_events set recover_at = now(), received_at = case event_id"
        " when 'v1' then now() - interval '2 h' else now() - interval '1 h' end"
    )
    webhooks = hands.parts.config.webhooks.model_copy(update={"limit": 1})
    config = hands.parts.config.model_copy(update={"webhooks": webhooks})
    one_by_one = replace(hands.parts, config=config)
    sweep = StrandedWebhooks(one_by_one, hands.identity, hands.token, hands.dispatcher)
    for expected in ("v1", "v2"):
        await sweep.tick()
        made = await hands.sql(
            "select v.event_id from task_executions e"
            " join webhook_events v on e.subject = 'webhook:' || v.id order by e.id desc limit 1"
        )
        assert made[0]["event_id"] == expected
    async with hands.parts.store.connection() as c:
        (waiting,) = await reports.webhooks(c, 300.0)
    assert waiting.oldest > 7000, "its age is not hidden by its recovery"
