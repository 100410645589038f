"""Cases of retries, time-outs and cancels."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from taskengine.errors import ExecutionNotFound, InvalidMove, InvalidSetting
from taskengine.lifecycle.operate import cancel, redrive
from taskengine.model.definition import settings_from
from taskengine.services.orphans import DeadWorkers, OverTime
from tests.support.make import FAILED, ORPHANED, Hands, Told, a_job, settled_by
from tests.support.until import until


async def test_c71_a_timed_out_job_is_retried_and_its_second_attempt_counts(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        if ctx.attempt == 1:
            await asyncio.sleep(600)

    await hands.know(a_job(body=body, timeout=1, max_attempts=3, retry_backoff=0))
    begun = time.monotonic()
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 2)
    assert time.monotonic() - begun < 20, "its own time-out, not the longest of all jobs"
    (told,) = await hands.sql("select move, reason from task_attempts")
    assert tuple(told.values()) == ("retried", "timed_out")
    async with hands.settling():
        flight = hands.fly(await hands.take_again(row["id"]))
        await until(lambda: flight.ended)
    assert await hands.state(row["id"]) == "succeeded"


async def test_c72_what_is_over_time_goes_by_its_own_bounds(hands: Hands) -> None:
    await hands.know(a_job("short", timeout=3), a_job("long", timeout=3600))
    short, long = await hands.running("short"), await hands.running("long")
    for each in (short, long):
        await hands.change(each.id, claimed_at="sql:now() - interval '7 s'")
    past = "sql:now() - interval '4 s'"  # 3 s after the claim, and more than 3 s ago
    await hands.change(short.id, deadline_at=past)
    await OverTime(hands.parts, hands.identity, hands.token).tick()
    assert await hands.state(short.id) == "pending"
    assert await hands.state(long.id) == "running"


@pytest.mark.parametrize("timeout", [0, -1, 10**12, None, True])
async def test_c73_no_time_out_is_no_value_and_is_refused_everywhere(
    hands: Hands, timeout: Any
) -> None:
    with pytest.raises(InvalidSetting):
        settings_from("work", {"timeout": timeout})
    await hands.know(a_job())
    value = "null" if timeout is None else str(int(timeout) if timeout is not True else 0)
    with pytest.raises(Exception, match=r"timeout|integer|null"):
        await hands.sql(f"update task_job_definitions set timeout = {value}")


@pytest.mark.parametrize("place", ["queue", "delayed", "processing"])
async def test_c75_a_cancel_before_the_start_keeps_it_from_starting(
    hands: Hands, place: str
) -> None:
    begun: list[int] = []

    async def body(ctx: Any) -> None:
        begun.append(ctx.execution_id)

    await hands.know(a_job(body=body))
    sent = await hands.dispatch(delay=600.0 if place == "delayed" else 0.0)
    reserved = await hands.reserve() if place == "processing" else []
    assert await hands.at(sent.execution_id) == place
    answer = await cancel(hands.parts, [sent.execution_id], "anna", "not wanted")
    assert answer == {sent.execution_id: "cancelled"}
    await hands.change(sent.execution_id, run_at="sql:now() - interval '1 s'")
    reserved = reserved or await hands.reserve()
    claims = await hands.claim(*(r.id for r in reserved))
    await hands.crew.acquirer.put_away(reserved, claims)
    assert claims == []
    assert await hands.state(sent.execution_id) == "cancelled"
    assert await hands.at(sent.execution_id) in (None, "delayed")
    assert begun == []


async def test_c76_cancels_of_what_is_over_or_unknown_stop_nobody(hands: Hands) -> None:
    await hands.know(a_job())
    over = [await hands.running(key=f"{n}") for n in range(20)]
    for claim in over:
        await hands.settle(claim)
    async with hands.working():
        for n in range(1000):
            if n % 10 == 0:
                await hands.dispatch()
            if n % 2:
                with pytest.raises(ExecutionNotFound):
                    await cancel(hands.parts, [10**12 + n], "anna", "?")
            else:
                done = over[n % 20].id
                assert await cancel(hands.parts, [done], "anna", "?") == {done: "already succeeded"}
        await settled_by(hands, "work")
    rows = await hands.sql("select count(*) n from task_executions where state = 'succeeded'")
    assert rows[0]["n"] == 120
    asked = await hands.sql("select from task_executions where abort_requested_at is not null")
    assert asked == []


async def test_c77_a_body_that_blocks_the_loop_is_not_run_twice(hands: Hands) -> None:
    """Its beats go on in their thread for three leases: nobody takes it for dead."""
    begun: list[int] = []

    async def body(ctx: Any) -> None:
        begun.append(ctx.execution_id)
        time.sleep(3 * hands.parts.config.heartbeat.lease)

    await hands.know(a_job(body=body))
    other = await Hands(hands.parts, "other").join()
    heart = asyncio.create_task(hands.heartbeat.run(lambda: None))
    watching = asyncio.create_task(other.heartbeat.run(lambda: None))
    async with hands.working():
        await hands.dispatch()
        await until(lambda: begun)
        await DeadWorkers(other.parts, other.identity, other.watch).tick()
        await settled_by(hands, "work")
    for task in (heart, watching):
        task.cancel()
    await asyncio.gather(heart, watching, return_exceptions=True)
    assert len(begun) == 1
    (row,) = await hands.sql("select state, attempt from task_executions")
    assert tuple(row.values()) == ("succeeded", 1)
    other.die()


async def test_c78_each_death_uses_an_attempt_and_after_the_last_it_says_why(hands: Hands) -> None:
    await hands.know(a_job(max_attempts=3, max_orphanings=10))
    claim = await hands.running()
    for attempt in (2, 3):
        assert (await hands.settle(claim, ORPHANED))[0].state == "pending"
        await hands.make_due(claim.id)
        claim = await hands.take_again(claim.id)
        assert claim.attempt == attempt
    await hands.settle(claim, ORPHANED)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"]) == ("failed", 3)
    assert "worker_died" in row["last_error"]


async def test_c79_a_redrive_pressed_twice_is_one_new_attempt(hands: Hands, told: Told) -> None:
    await hands.know(a_job(max_attempts=1))
    claim = await hands.running()
    await hands.settle(claim, FAILED)
    presses = [redrive(hands.parts, claim.id, "anna", from_start=False) for _ in range(2)]
    answers = await asyncio.gather(*presses, return_exceptions=True)
    assert sorted(str(type(a).__name__) for a in answers) == ["InvalidMove", "bool"]
    again = await hands.take(claim.id)
    with pytest.raises(InvalidMove, match="is running"):
        await redrive(hands.parts, claim.id, "anna", from_start=False)
    assert (again.id, again.attempt) == (claim.id, 2)
    rows = await hands.sql("select count(*) n from task_executions where job = 'work'")
    assert rows[0]["n"] == 1
    assert await hands.history(claim.id) == ["failed", "redriven"]
