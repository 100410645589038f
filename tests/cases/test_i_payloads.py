"""Cases of payloads, results, and what stands in a queue that is no id of ours."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from taskengine import Discard, TaskEngine, job
from taskengine.app.process import measure
from taskengine.config import Config
from taskengine.errors import PayloadError
from taskengine.model.payload import JsonValue
from tests.cli.conftest import Cli
from tests.support.make import Hands, Told, a_job, settled_by
from tests.support.until import until
from tests.support.webhooks import register, serving, with_sources


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


@pytest.mark.parametrize("code", [0xD83D, 0xDE00, 0], ids=["high", "low", "nul"])
@pytest.mark.parametrize("place", ["result", "error", "reason", "log", "progress", "cursor"])
async def test_c87_wherever_a_body_says_it_the_run_ends_all_the_same(
    hands: Hands, code: int, place: str
) -> None:
    odd = f"a{chr(code)}b"

    async def body(ctx: Any) -> Any:
        if ctx.execution_id % 2 == 0:
            return "a good neighbour"
        return await _say(ctx, place, odd)

    await hands.know(a_job(body=body, max_attempts=1))
    async with hands.working():
        sent = await asyncio.gather(*(hands.dispatch() for _ in range(4)))
        await settled_by(hands, "work")
    rows = [await hands.row(each.execution_id) for each in sent]
    failing = place in ("error", "reason", "cursor")
    assert {row["state"] for row in rows if row["id"] % 2 == 0} == {"succeeded"}
    assert {row["state"] for row in rows if row["id"] % 2} == {"failed" if failing else "succeeded"}
    assert {row["attempt"] for row in rows} == {1}


async def _say(ctx: Any, place: str, odd: str) -> Any:
    """Let the text stand there."""
    match place:
        case "error":
            raise ValueError(odd)
        case "reason":
            raise Discard(odd)
        case "log":
            ctx.log("info", odd, field=odd)
        case "progress":
            ctx.progress(50, odd)
        case "cursor":
            await ctx.save_cursor(odd)
    return {"result": odd} if place == "result" else None


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


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
async def test_c88_in_a_dispatch_or_a_webhook_it_is_refused(
    hands: Hands, cli: Cli, config: Config, token: str
) -> None:
    await hands.know(takes)
    result = await cli("dispatch", "takes", "--payload", f'{{"value": {token}}}')
    assert result.status not in (0, 1)
    assert token in result.err
    through = replace(hands.parts, config=with_sources(config))
    await register(through)
    async with serving(through) as site:
        body = b'{"id": "e", "type": "t", "amount": %s}' % token.encode()
        assert (await site.post(body)).status_code == 400
        assert await site.rows("select from webhook_events") == []
    assert await hands.sql("select from task_executions") == []


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
        (datetime(2026, 11, 2, 12, tzinfo=UTC), '"2026-11-02T12:00:00+00:00"'),
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
    if stored is None:
        assert row["result"] is None
        assert row["result_error"].startswith("result")
    else:
        assert json.loads(row["result"]) == json.loads(stored)


async def test_c90_no_digit_changes_on_its_way(hands: Hands, cli: Cli) -> None:
    """In by the command line, to the body and its result, out by the command line and the client;
    and once more when it is run again."""
    seen: list[Any] = []

    @job("digits", max_attempts=1)
    async def digits(ctx: Any, id: int, amount: Decimal, big: int, price: Any) -> Any:  # noqa: A002
        seen.append((id, amount, big, price))
        if len(seen) == 1:
            raise Discard("once more")
        return {"id": id, "price": price}

    await hands.know(digits)
    text = f'{{"id":9007199254740993,"amount":0.1,"big":{10**30},"price":1.10}}'
    sent = (await cli("dispatch", "digits", "--payload", text, "--json")).object
    async with hands.working():
        await settled_by(hands, "digits")
        assert (await cli("executions", "redrive", sent["execution_id"])).status == 0
        await until(lambda: len(seen) == 2)
        await settled_by(hands, "digits")
    price = Decimal("1.10")
    assert seen == [(9007199254740993, Decimal("0.1"), 10**30, price)] * 2
    assert [str(each[3]) for each in seen] == ["1.10", "1.10"]
    id_ = sent["execution_id"]
    for args in (("list", "--job", "digits", "--json"), ("show", id_, "--json"), ("show", id_)):
        shown = (await cli("executions", *args)).out.replace(" ", "")
        for pair in ("9007199254740993", f'"big":{10**30}', '"price":1.10', '"amount":0.1'):
            assert pair in shown
    found = await TaskEngine.of(hands.parts).get(sent["execution_id"])
    assert "1.10" in str(found.payload)
    assert '"id": 9007199254740993' in str(found.result)


@pytest.mark.parametrize(
    "rubbish",
    [b"{", b"", b"\xff\xfe", b"v0:17", b"-1", b"01", b"x" * 5_000_000],
    ids=["brace", "empty", "bytes", "old-format", "negative", "zeros", "5-MB"],
)
async def test_c91_rubbish_in_a_queue_is_dropped_counted_and_holds_nobody_up(
    hands: Hands, told: Told, rubbish: bytes
) -> None:
    await hands.know(a_job())
    metrics = measure(hands.parts)
    first, last = await hands.insert(key="a"), await hands.insert(key="b")
    key = hands.parts.keys.queue("default")
    for score, member in enumerate((first.id, rubbish, last.id), 1):
        await hands.redis("ZADD", key, score, member)
    async with hands.working():
        await settled_by(hands, "work")
    assert [e["count"] for e in told.of("queue.foreign_dropped")] == [1]
    name = "taskengine_queue_foreign_dropped_total"
    assert metrics.registry.get_sample_value(name, {"queue": "default"}) == 1
    assert await hands.redis("ZCARD", hands.parts.keys.processing("default")) == 0
    assert {await hands.state(first.id), await hands.state(last.id)} == {"succeeded"}
