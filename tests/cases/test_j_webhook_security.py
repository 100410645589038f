"""Cases of the security of webhooks, over real HTTP."""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

import taskengine
from taskengine.config import Config, Webhooks
from taskengine.lifecycle.parts import Parts
from taskengine.services.webhooks import StrandedWebhooks
from tests.support.make import Hands
from tests.support.webhooks import KEY, OLD_KEY, SOURCE, Site, event, register, serving, signed
from tests.support.webhooks import with_sources as _with_sources

SOURCE_FOLDER = Path(taskengine.__file__).parent
TOLERANCE = 120  # seconds, the default


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
    """What is called a signature, key, token, secret or digest meets `==` nowhere, but for the
    engine's own random claim and lease tokens, which are no secrets."""
    words = ("signature", "secret", "password", "digest", "hmac", "api_key")
    found = []
    for path in SOURCE_FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Compare):
                continue
            if not any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
                continue
            text = ast.unparse(node).lower()
            if any(word in text for word in words):
                found.append(f"{path.name}:{node.lineno} {text}")
    assert found == []
    texts = [p.read_text() for p in SOURCE_FOLDER.rglob("signature*.py")]
    assert any("compare_digest" in text for text in texts)


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
    "stamp", ["-1", "NaN", "1e309", "1798761600000", "1_000", "", "0x10", "9" * 400]
)
async def test_c99_a_stamp_that_is_none_is_refused_and_never_a_500(site: Site, stamp: str) -> None:
    headers = signed(event(), site.now()) | {"x-everee-webhook-timestamp": stamp}
    assert (await site.send(event(), headers)).status_code in (400, 401)
    arabic = signed(event(), site.now()) | {"x-everee-webhook-timestamp": "١٢٣".encode()}
    assert (await site.send(event(), arabic)).status_code in (400, 401)
    assert await count(site) == 0


@pytest.mark.parametrize("keys", [(KEY,), (OLD_KEY,), (OLD_KEY, KEY)], ids=["new", "old", "both"])
async def test_c100_while_a_key_is_rotated_both_are_taken(
    site: Site, keys: tuple[str, ...]
) -> None:
    assert (await site.post(event(), *keys)).status_code == 200


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
        "update webhook_events set received_at = now() - interval '1 h',"
        " touched_at = now() - interval '1 h', recover_at = now() - interval '1 min' * id"
    )
    sweep = StrandedWebhooks(hands.parts, hands.identity, hands.token, hands.dispatcher)
    await sweep.tick()
    made = await hands.sql("select subject from task_executions order by id")
    assert len(made) == 2
    assert (await hands.sql("select received_at from webhook_events"))[0]["received_at"]
