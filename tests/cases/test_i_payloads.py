"""Cases of payloads, results, and what stands in a queue that is no id of ours."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import httpx
import pytest

from taskengine import TaskEngine, job
from taskengine.config import Config
from taskengine.errors import PayloadError
from taskengine.lifecycle.dispatch import Request
from taskengine.lifecycle.parts import Parts
from taskengine.model.payload import JsonValue
from tests.support.make import Hands, Told, a_job, settled_by
from tests.support.webhooks import event, register, serving, signed, with_sources


@job("takes")
async def takes(ctx: Any, value: Any = None) -> None:
    """Takes anything that is JSON."""


@pytest.mark.parametrize("code", [0xD83D, 0xDE00, 0], ids=["high", "low", "nul"])
@pytest.mark.parametrize("place", ["value", "key"])
async def test_c87_what_postgres_cannot_store_is_refused_at_the_door(
    hands: Hands, code: int, place: str
) -> None:
    await hands.know(takes)
    odd = f"a{chr(code)}b"
    value: JsonValue = {odd: 1} if place == "key" else odd
    with pytest.raises(PayloadError, match=r"\$\.value"):
        takes.call(value=value)
    with pytest.raises(PayloadError):
        await TaskEngine.of(hands.parts).dispatch("takes", {"value": value})
    assert await hands.sql("select from task_executions") == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [{"deep": math.nan}]])
async def test_c88_a_result_that_is_no_json_does_not_undo_the_work(
    hands: Hands, value: Any
) -> None:
    async def body(ctx: Any) -> Any:
        return value

    await hands.know(a_job(body=body))
    row = await hands.run()
    assert (row["state"], row["result"], row["attempt"]) == ("succeeded", None, 1)
    assert row["result_error"]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_c88_as_an_argument_it_is_refused(value: float) -> None:
    with pytest.raises(PayloadError, match=r"\$\.value"):
        takes.call(value=value)


@dataclass
class Slip:
    """A result of a user's own."""

    amount: Decimal


class Rude:
    def __repr__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (Decimal("1.10"), '"1.10"'),
        (date(2026, 11, 2), '"2026-11-02"'),
        (datetime(2026, 11, 2, 12, tzinfo=UTC), None),
        (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
        (Slip(Decimal("812.50")), '{"amount": "812.50"}'),
        ({1, 2}, None),
        (b"bytes", None),
        (Rude(), None),
    ],
    ids=["decimal", "date", "datetime", "uuid", "dataclass", "set", "bytes", "rude"],
)
async def test_c89_any_result_ends_the_run_once(
    hands: Hands, value: Any, stored: str | None
) -> None:
    begun: list[int] = []

    async def body(ctx: Any) -> Any:
        begun.append(1)
        return value

    await hands.know(a_job(body=body))
    row = await hands.run()
    assert (row["state"], len(begun)) == ("succeeded", 1)
    assert (row["result"] is None) == (row["result_error"] is not None)
    if stored is not None:
        assert json.loads(row["result"]) == json.loads(stored)


async def test_c90_no_digit_changes_on_its_way(hands: Hands) -> None:
    seen: list[Any] = []

    @job("digits")
    async def digits(ctx: Any, id: int, amount: Decimal, big: int, price: Decimal) -> None:  # noqa: A002
        seen.append((id, amount, big, price))

    await hands.know(digits)
    call = digits.call(9007199254740993, Decimal("0.1"), 10**30, Decimal("1.10"))
    sent = await hands.dispatcher.dispatch(Request(call.job, call.payload))
    async with hands.working():
        await settled_by(hands, "digits")
    assert seen == [(9007199254740993, Decimal("0.1"), 10**30, Decimal("1.10"))]
    stored = str((await hands.row(sent.execution_id))["payload"])
    for digits_ in ("9007199254740993", "0.1", str(10**30), "1.10"):
        assert digits_ in stored


@pytest.mark.parametrize(
    "rubbish",
    [b"{", b"", b"\xff\xfe", b"v0:17", b"-1", b"01", b"x" * 5_000_000],
    ids=["brace", "empty", "bytes", "old-format", "negative", "zeros", "5-MB"],
)
async def test_c91_rubbish_in_a_queue_is_dropped_counted_and_holds_nobody_up(
    hands: Hands, told: Told, rubbish: bytes
) -> None:
    await hands.know(a_job())
    first, last = await hands.insert(key="a"), await hands.insert(key="b")
    key = hands.parts.keys.queue("default")
    for score, member in enumerate((first.id, rubbish, last.id), 1):
        await hands.redis("ZADD", key, score, member)
    async with hands.working():
        await settled_by(hands, "work")
    assert [e["count"] for e in told.of("queue.foreign_dropped")] == [1]
    assert await hands.redis("ZCARD", hands.parts.keys.processing("default")) == 0
    assert {await hands.state(first.id), await hands.state(last.id)} == {"succeeded"}


async def test_c92_an_endless_body_is_ended_while_it_is_read(parts: Parts, config: Config) -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(200 * 16):
            sent += 1
            yield b" " * 65_536

    through = replace(parts, config=with_sources(config))
    await register(through)
    async with serving(through) as site:
        try:
            answer = await site.http.post("/webhooks/everee", content=body())
            assert answer.status_code == 413
        except httpx.TransportError:
            pass  # it hung up on us while we were still sending
        assert sent * 65_536 < 50_000_000, "the rest was not read"
        assert (await site.post(event())).status_code == 200
        zipped = signed(b"\x1f\x8b", site.now()) | {"content-encoding": "gzip"}
        refused = await site.send(b"\x1f\x8b", zipped)
        assert 400 <= refused.status_code < 500
        assert len(await site.rows("select from webhook_events")) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 1500 + b"]" * 1500,
        b"[" * 20_000 + b"]" * 20_000,
        b'{"id": ' + b"9" * 5000 + b"}",
        b"\xef\xbb\xbf{}",
        b'{"id": "\xff"}',
        b"",
        b"7",
    ],
    ids=["deep", "deeper", "5000-digits", "bom", "bad-utf8", "empty", "scalar"],
)
async def test_c93_unusable_bodies_are_400_signed_and_401_unsigned(
    parts: Parts, config: Config, body: bytes
) -> None:
    through = replace(parts, config=with_sources(config))
    await register(through)
    async with serving(through) as site:
        assert (await site.send(body, {})).status_code == 401
        answer = await site.post(body)
        rows = await site.rows("select status from webhook_events")
        assert answer.status_code == 400 or [r["status"] for r in rows] == ["invalid"]
        assert answer.status_code < 500
        assert await site.rows("select from task_executions") == []
