"""A signed event comes in over HTTP, once; everything else leaves no row."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr

from taskengine.broker.client import Client
from taskengine.broker.queue import Queues
from taskengine.config import Config
from taskengine.lifecycle.parts import Parts
from taskengine.store.pool import Store
from tests.support.webhooks import (
    KEY,
    OLD_KEY,
    Site,
    event,
    register,
    serving,
    signed,
    with_sources,
)


@pytest.fixture
def config(config: Config) -> Config:
    return with_sources(config)


@pytest_asyncio.fixture
async def site(parts: Parts) -> AsyncIterator[Site]:
    await register(parts)
    async with serving(parts) as site:
        yield site


async def events(site: Site) -> list[tuple[str, str]]:
    rows = await site.rows("select event_id, status from webhook_events order by id")
    return [(row["event_id"], row["status"]) for row in rows]


async def nothing_is_stored(site: Site) -> bool:
    return not await events(site) and not await site.rows("select id from task_executions")


async def waiting(site: Site, queue: str = "payroll") -> list[int]:
    key = site.parts.keys.queue(queue)
    return [int(each) for each in await site.parts.client.command("ZRANGE", key, 0, -1)]


# ---- a genuine event -------------------------------------------------------------------------


async def test_an_event_and_its_execution_are_stored_together_and_delivered(site: Site) -> None:
    body = event(timestamp=1798761598)
    answer = await site.post(body)
    assert (answer.status_code, answer.json()) == (200, {"status": "accepted"})
    [stored] = await site.rows("select * from webhook_events")
    [made] = await site.rows("select *, payload::text as text from task_executions")
    assert (stored["source"], stored["event_id"], stored["type"]) == (
        "everee", "evt-1", "payment.paid")  # fmt: skip
    assert (stored["status"], stored["body"], stored["processed_at"]) == ("received", body, None)
    assert stored["occurred_at"].timestamp() == 1798761598
    assert made["idempotency_key"] == made["subject"] == f"webhook:{stored['id']}"
    assert (made["job"], made["queue"], made["state"]) == ("payroll-event", "payroll", "pending")
    assert json.loads(made["text"]) == {
        "webhook_event_id": stored["id"], "source": "everee", "type": "payment.paid"}  # fmt: skip
    assert await waiting(site) == [made["id"]]
    assert site.told("executions.dispatched") == [
        {"rows": [("payroll", "payroll-event", made["id"])]}
    ]


async def test_no_signature_is_kept(site: Site) -> None:
    await site.post(event())
    [stored] = await site.rows("select headers::text as headers from webhook_events")
    assert "v1=" not in stored["headers"]
    assert "application/json" in stored["headers"]


async def test_the_job_gives_the_queue_where_the_source_names_none(parts: Parts) -> None:
    await register(parts, queue="low")
    source = parts.config.webhooks.sources["everee"].model_copy(update={"queue": None})
    webhooks = parts.config.webhooks.model_copy(update={"sources": {"everee": source}})
    config = parts.config.model_copy(update={"webhooks": webhooks})
    async with serving(replace(parts, config=config)) as site:
        await site.post(event())
        assert len(await waiting(site, "low")) == 1


@pytest.mark.parametrize("keys", [(KEY,), (OLD_KEY,), (KEY, OLD_KEY), (OLD_KEY, KEY)])
async def test_while_keys_are_rotated_both_are_taken(site: Site, keys: tuple[str, ...]) -> None:
    assert (await site.post(event(), *keys)).status_code == 200
    alerts = site.told("webhook.old_key")
    assert [alert["key_index"] for alert in alerts] == ([1] if keys == (OLD_KEY,) else [])


@pytest.mark.parametrize(
    "body",
    [
        b'{ "type" : "t" ,\r\n "id":"e", "amount": 1.10, "name": "\\u00e9" }\n',
        '{"id":"e","type":"t","text":"⛕ 🎉"}'.encode(),
        b'{"id":"x","id":"e","type":"t"}',
    ],
)
async def test_the_raw_bytes_are_what_is_signed_and_stored(site: Site, body: bytes) -> None:
    assert (await site.post(body)).json() == {"status": "accepted"}
    [stored] = await site.rows("select body, event_id from webhook_events")
    assert (stored["body"], stored["event_id"]) == (body, "e")


# ---- duplicates ------------------------------------------------------------------------------


async def test_a_duplicate_is_one_event_and_one_execution(site: Site) -> None:
    await site.post(event())
    answer = await site.post(event())
    assert (answer.status_code, answer.json()) == (200, {"status": "duplicate"})
    assert len(await events(site)) == 1
    assert len(await site.rows("select id from task_executions")) == 1


async def test_a_duplicate_whose_execution_waits_is_delivered_again(site: Site) -> None:
    await site.post(event())
    first = await waiting(site)
    await site.parts.client.command("DEL", site.parts.keys.queue("payroll"))
    await site.post(event())
    assert await waiting(site) == first


async def test_a_duplicate_of_what_has_run_is_not_run_again(site: Site) -> None:
    await site.post(event())
    await site.parts.client.command("DEL", site.parts.keys.queue("payroll"))
    await site.rows("update task_executions set state = 'succeeded', finished_at = now()")
    assert (await site.post(event())).json() == {"status": "duplicate"}
    assert await waiting(site) == []


async def test_many_at_once_are_one(site: Site) -> None:
    answers = await asyncio.gather(*(site.post(event()) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(answer.json()["status"] for answer in answers) == ["accepted"] + 19 * [
        "duplicate"
    ]
    assert len(await site.rows("select id from task_executions")) == 1


async def test_the_same_id_with_another_body_keeps_the_first_and_says_so(site: Site) -> None:
    await site.post(event(amount=1))
    assert (await site.post(event(amount=2))).json() == {"status": "duplicate"}
    [stored] = await site.rows("select body from webhook_events")
    assert stored["body"] == event(amount=1)
    assert len(site.told("webhook.conflict")) == 1


# ---- refused: 401, 413, 404, 400 -------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "result"),
    [
        ({}, "missing_signature"),
        ({"x-everee-webhook-signature": "v1=" + "0" * 64}, "bad_signature"),
        ({"x-everee-webhook-signature": ""}, "missing_signature"),
        ({"x-everee-webhook-signature": b"v1=\xff\xfe"}, "malformed_signature"),
        ({"x-everee-webhook-signature": "v1=" + "a" * 60_000}, "malformed_signature"),
        ({"x-everee-webhook-timestamp": "٣".encode()}, "malformed_signature"),
        ({"x-everee-webhook-timestamp": "1e309"}, "malformed_signature"),
        ({"x-everee-webhook-timestamp": "9" * 5000}, "malformed_signature"),
    ],
)
async def test_a_bad_signature_is_401_and_no_row(
    site: Site, headers: dict[str, str | bytes], result: str
) -> None:
    body = event()
    sent: dict[str, str | bytes] = {**signed(body, site.now()), **headers} if headers else {}
    answer = await site.send(body, sent)
    assert (answer.status_code, answer.json()) == (401, {"error": "signature refused"})
    assert [told["result"] for told in site.told("webhook.received")] == [result]
    assert await nothing_is_stored(site)


async def test_stale_and_future_ones_are_401_and_told_apart(site: Site) -> None:
    body, now = event(), site.now()
    assert (await site.send(body, signed(body, now - 125))).status_code == 401
    assert (await site.send(body, signed(body, now + 125))).status_code == 401
    assert [told["result"] for told in site.told("webhook.received")] == ["stale", "future"]
    assert await nothing_is_stored(site)


async def test_a_changed_body_is_401(site: Site) -> None:
    headers = signed(event(amount=1), site.now())
    assert (await site.send(event(amount=2), headers)).status_code == 401
    assert await nothing_is_stored(site)


async def test_an_unknown_source_is_404(site: Site) -> None:
    assert (await site.post(event(), source="nobody")).status_code == 404
    assert (await site.post(event(), source="%00")).status_code == 404
    assert {told["source"] for told in site.told("webhook.received")} == {""}


async def test_nothing_redirects(site: Site) -> None:
    assert (await site.http.post("/webhooks/everee/", content=b"{}")).status_code == 404
    assert (await site.http.get("/webhooks/everee")).status_code == 405


async def test_a_body_over_the_limit_is_413_whatever_length_it_said(site: Site) -> None:
    limit = site.parts.config.webhooks.sources["everee"].max_body
    body = event(filler="x" * limit)
    assert (await site.post(body)).status_code == 413
    assert await nothing_is_stored(site)


async def test_an_endless_body_is_ended_and_others_are_served(site: Site) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 200 * 2**20:
            sent += 2**16
            yield b"x" * 2**16

    one, other = await asyncio.gather(
        site.send(endless(), signed(b"", site.now())), site.post(event()), return_exceptions=True
    )
    assert getattr(one, "status_code", 413) == 413  # or the connection was closed meanwhile
    assert getattr(other, "status_code", None) == 200
    assert sent < 50 * 2**20
    assert "too_large" in [told["result"] for told in site.told("webhook.received")]


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"\xff\xfe", b'{"id":"\xff"}', b"\xef\xbb\xbf{}", b"NaN",
        b"[" * 1500 + b"]" * 1500, b"[" * 20_000 + b"]" * 20_000, b"1" * 5000,
        b'{"id":"\\u0000"}', b'{"id":"\\ud83d"}', b'{"a":Infinity}',
    ],
)  # fmt: skip
async def test_what_is_signed_but_unusable_is_400_and_no_row(site: Site, body: bytes) -> None:
    assert (await site.post(body)).status_code == 400
    assert (await site.send(body, {})).status_code == 401
    assert await nothing_is_stored(site)


async def test_nothing_of_secret_signature_or_body_is_told(site: Site) -> None:
    body = event(secret="sesame-sesame")
    headers = signed(body, site.now())
    signature = headers["x-everee-webhook-signature"]
    texts = [
        (await site.send(body, headers)).text,
        (await site.send(body + b" ", headers)).text,
        (await site.post(body + b"}")).text,
    ]
    said = repr(site.events) + repr(texts)
    assert "sesame" not in said
    assert signature[3:] not in said
    assert KEY not in said


async def test_a_flood_of_refusals_is_counted_but_told_once(site: Site) -> None:
    for _ in range(30):
        await site.send(event(), {})
    assert len(site.told("webhook.received")) == 30
    assert len(site.told("webhook.refused")) == 1


# ---- genuine, but not to be run --------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [b"[]", b"5", b'{"id":"e"}', b'{"type":"t"}', b'{"id":1.5,"type":"t"}']
)
async def test_a_bad_envelope_is_stored_as_invalid(site: Site, body: bytes) -> None:
    answer = await site.post(body)
    assert (answer.status_code, answer.json()) == (200, {"status": "invalid"})
    [stored] = await site.rows("select status, error, body from webhook_events")
    assert (stored["status"], stored["body"]) == ("invalid", body)
    assert "no usable" in stored["error"]
    assert len(site.told("webhook.invalid")) == 1
    assert not await site.rows("select id from task_executions")
    assert (await site.post(body)).json() == {"status": "duplicate"}


async def test_an_unknown_type_is_stored_as_ignored(parts: Parts) -> None:
    await register(parts)
    source = parts.config.webhooks.sources["everee"].model_copy(update={"types": ("payment.*",)})
    webhooks = parts.config.webhooks.model_copy(update={"sources": {"everee": source}})
    config = parts.config.model_copy(update={"webhooks": webhooks})
    async with serving(replace(parts, config=config)) as site:
        assert (await site.post(event("a", "worker.created"))).json() == {"status": "ignored"}
        assert (await site.post(event("b", "payment.paid"))).json() == {"status": "accepted"}
        assert await events(site) == [("a", "ignored"), ("b", "received")]
        assert len(await site.rows("select id from task_executions")) == 1


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (None, "unknown job"),
        ({"is_enabled": False}, "disabled"),
        ({"scope": "per_store"}, "store"),
    ],
)
async def test_a_job_that_takes_nothing_keeps_the_event_and_alerts(
    parts: Parts, settings: dict[str, Any] | None, why: str
) -> None:
    if settings is not None:
        await register(parts, **settings)
    async with serving(parts) as site:
        assert (await site.post(event())).status_code == 200
        assert await events(site) == [("evt-1", "received")]
        assert not await site.rows("select id from task_executions")
        [alert] = site.told("webhook.undispatched")
        assert why in alert["error"]


# ---- when something is away ------------------------------------------------------------------


async def test_redis_away_is_2xx(parts: Parts) -> None:
    await register(parts)
    settings = parts.config.redis.model_copy(update={"url": SecretStr("unix:///nowhere.sock")})
    client = Client(settings, parts.clock)
    away = replace(
        parts, client=client, queues=Queues(client, parts.keys, parts.config.engine.queues)
    )
    async with serving(away) as site:
        assert (await site.post(event())).json() == {"status": "accepted"}
        assert (await site.post(event())).json() == {"status": "duplicate"}
        assert len(await site.rows("select id from task_executions where state = 'pending'")) == 1
        assert site.told("execution.undelivered")
    await client.close()


async def test_postgres_away_is_503_with_retry_after(parts: Parts) -> None:
    nowhere = SecretStr("postgresql://nobody@127.0.0.1:1/nothing")
    store = await Store.open(parts.config.postgres.model_copy(update={"dsn": nowhere}))
    async with serving(replace(parts, store=store)) as site:
        answer = await site.post(event())
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert (await site.send(event(), {})).status_code == 401
    await store.close()


async def test_a_locked_table_is_503_in_bounded_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskengine.web.ingest._STORE_SECONDS", 0.3)
    async with site.parts.store.transaction() as c:
        await c.execute("lock table webhook_events in access exclusive mode")
        assert (await site.post(event())).status_code == 503
    assert (await site.post(event())).json() == {"status": "accepted"}


async def test_a_slow_sender_is_408(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskengine.web.ingest._READ_SECONDS", 0.1)

    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    writer.write(b"POST /webhooks/everee HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
    assert b" 408 " in await reader.readline()
    writer.close()
    assert [told["result"] for told in site.told("webhook.received")] == ["slow"]


async def test_a_sender_that_hangs_up_leaves_no_row(site: Site) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    writer.write(b"POST /webhooks/everee HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
    await writer.drain()
    writer.close()
    while not site.told("webhook.received"):
        await asyncio.sleep(0.01)
    assert await nothing_is_stored(site)


async def test_too_many_at_once_are_503(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskengine.web.ingest._AT_ONCE", 0)
    answer = await site.post(event())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
