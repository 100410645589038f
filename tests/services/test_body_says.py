"""What a body says while it runs: progress, log, cursor."""

from __future__ import annotations

import asyncio
from typing import Any

from taskengine.model.context import JobContext
from tests.support.make import FAILED, Hands, a_job
from tests.support.until import until


async def test_progress_and_log_are_written_while_it_runs_and_with_the_settlement(
    hands: Hands,
) -> None:
    go_on = asyncio.Event()

    async def body(ctx: Any) -> None:
        ctx.progress(40, "reading")
        ctx.info("first", rows=3)
        await go_on.wait()
        ctx.progress(90, "writing")
        ctx.warning("second")

    await hands.know(a_job("work", body))
    claim = await hands.running()
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: hands.crew.inflight._changed)
        await hands.crew.scribe.tick()
        row = await hands.row(claim.id)
        assert (row["progress"], row["progress_message"]) == (40, "reading")
        assert await log_of(hands) == [("info", "first", '{"rows": 3}')]
        go_on.set()
        await until(lambda: flight.ended)
    row = await hands.row(claim.id)
    assert (row["state"], row["progress"], row["progress_message"]) == ("succeeded", 90, "writing")
    assert await log_of(hands) == [("info", "first", '{"rows": 3}'), ("warning", "second", None)]


async def log_of(hands: Hands) -> list[tuple[Any, ...]]:
    rows = await hands.sql("select level, message, fields from task_execution_logs order by id")
    return [tuple(row.values()) for row in rows]


async def test_progress_of_a_lost_claim_is_not_written(hands: Hands) -> None:
    await hands.know(a_job())
    claim = await hands.running()
    flight = hands.flight(claim)
    hands.crew.inflight.add(flight)
    flight.ctx.progress(10)
    await hands.settle(claim, FAILED)
    await hands.crew.scribe.tick()
    assert (await hands.row(claim.id))["progress"] is None


async def test_cursor_is_durable_when_awaited_and_there_in_the_next_attempt(hands: Hands) -> None:
    seen = []

    async def body(ctx: JobContext) -> None:
        seen.append(ctx.cursor)
        await ctx.save_cursor({"page": len(seen)})
        assert (await hands.row(ctx.execution_id))["cursor"] == f'{{"page": {len(seen)}}}'
        if len(seen) == 1:
            raise ValueError

    await hands.know(a_job("work", body))
    row = await hands.run(key="k")
    await hands.make_due(row["id"])
    claim = await hands.take_again(row["id"])
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: flight.ended)
    assert seen == [None, {"page": 1}]
    assert await hands.state(row["id"]) == "succeeded"


async def test_heartbeat_and_checkpoint_let_a_body_go_on_that_nobody_asked_to_stop(
    hands: Hands,
) -> None:
    async def body(ctx: Any) -> None:
        ctx.heartbeat()
        ctx.checkpoint()

    await hands.know(a_job("work", body))
    claim = await hands.running()
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: flight.ended)
    assert await hands.state(claim.id) == "succeeded"
