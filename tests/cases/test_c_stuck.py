"""Cases of work that was stuck for ever."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from taskengine.errors import BrokerUnavailable
from taskengine.insight import why
from taskengine.lifecycle.dispatch import Request
from taskengine.model.outcome import Ending, Outcome
from taskengine.services.orphans import DeadWorkers, OverTime, Reservations
from taskengine.store import executions
from tests.cases import case_jobs as jobs
from tests.cases.support import Ground
from tests.support.make import CANCELLED, FAILED, ORPHANED, Hands, Told, a_job, settled_by
from tests.support.until import until

TIMED_OUT = Outcome(Ending.TIMED_OUT, reason="timed_out", error="timed out")


async def test_c23_two_hundred_lost_acks_leave_nothing_behind(hands: Hands) -> None:
    """Redis refuses every ZREM while they are acknowledged, and is healed."""
    await hands.know(a_job())
    hands.crew.slots = 200
    await hands.dispatcher.dispatch_many([Request("work") for _ in range(200)])
    await hands.redis("ACL", "SETUSER", "default", "-zrem")
    try:
        async with hands.working():
            await settled_by(hands, "work")
    finally:
        await until(lambda: _heal(hands))
    depth = (await hands.parts.queues.depths())["default"]
    assert (depth.waiting, depth.processing) == (0, 200)
    await hands.age_reservations()
    assert await Reservations(hands.parts).tick()
    again = await hands.reserve(500)
    claims = await hands.claim(*(r.id for r in again))
    await hands.crew.acquirer.put_away(again, claims)
    assert (len(again), claims) == (200, [])
    assert sum(map(sum, (await hands.parts.queues.depths()).values())) == 0
    rows = await hands.sql("select distinct state, attempt, fence from task_executions")
    assert [tuple(row.values()) for row in rows] == [("succeeded", 1, 1)]


async def _heal(hands: Hands) -> bool:
    """As soon as the breaker lets it through."""
    with suppress(BrokerUnavailable):
        await hands.redis("ACL", "SETUSER", "default", "+@all")
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("shift", ["0 s", "10 min", "-10 min"])
async def test_c24_what_a_killed_worker_ran_is_recovered_and_the_log_says_why(
    ground: Ground, shift: str
) -> None:
    """Also where the clock was set between: to the rows it is as if their times had been moved."""
    daemon = ground.daemon()
    await ground.engine.dispatch_many([jobs.long_at_first.call() for _ in range(3)])
    await ground.until_count("state = 'running'", 3)
    daemon.kill()
    moved = f"interval '{shift}'"
    await ground.sql(
        f"update task_executions set claimed_at = claimed_at - {moved},"
        f" deadline_at = deadline_at - {moved}, run_at = run_at - {moved}"
    )
    await ground.sql(f"update task_workers set last_beat_at = last_beat_at - {moved}")
    ground.daemon()
    await ground.until_count("state = 'succeeded' and attempt = 2 and orphanings = 1", 3)
    told = ground.logged("execution.orphaned")
    assert len(told) == 3
    assert {line["reason"] for line in told} == {"worker_died"}


async def test_c26_a_backend_ended_at_the_last_write_costs_a_repeat(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hands.know(a_job())
    real, ended = executions.succeed, list[int]()

    async def succeed(c: Any, rows: Any) -> Any:
        if len(ended) < 3:
            ended.append(1)
            await c.execute("select pg_terminate_backend(pg_backend_pid())")
        return await real(c, rows)

    monkeypatch.setattr(executions, "succeed", succeed)
    row = await hands.run()
    assert len(ended) == 3
    assert (row["state"], row["attempt"]) == ("succeeded", 1)
    assert hands.crew.inflight.busy == 0


async def test_c27_a_row_that_is_locked_holds_up_no_other_orphan(hands: Hands) -> None:
    await hands.know(a_job())
    stuck, other = await hands.running(key="stuck"), await hands.running(key="other")
    late = "deadline_at = now() - interval '1 h', claimed_at = now() - interval '2 h'"
    await hands.sql(f"update task_executions set {late}")
    sweep = OverTime(hands.parts, hands.identity, hands.token)
    async with hands.parts.store.transaction() as c:
        await c.execute("select from task_executions where id = $1 for update", stuck.id)
        await asyncio.wait_for(sweep.tick(), 10)
        assert await hands.state(other.id) == "pending"
        assert await hands.state(stuck.id) == "running"
    await sweep.tick()
    assert await hands.state(stuck.id) == "pending"


@pytest.mark.parametrize("stuck", [0, 1])
async def test_c27_a_dead_worker_whose_row_is_locked_holds_up_no_other(
    hands: Hands, stuck: int
) -> None:
    """As by the backend of a claim whose host has lost its power. The next turn finds it, too."""
    await hands.know(a_job())
    dead = [await Hands(hands.parts, f"dead {n}").join() for n in range(2)]
    ids = []
    for each in dead:
        sent = await hands.dispatch()
        await hands.claim(sent.execution_id, worker=each.worker_id)
        ids.append(sent.execution_id)
        each.die()
    await hands.beat()
    service = DeadWorkers(hands.parts, hands.identity, hands.watch)
    async with hands.parts.store.transaction() as c:
        held = "select from task_workers where id = $1 for key share"
        await c.execute(held, dead[stuck].worker_id)
        await asyncio.wait_for(service.tick(), 10)
        assert await hands.state(ids[1 - stuck]) == "pending"
        assert await hands.state(ids[stuck]) == "running"
    await service.tick()
    assert [await hands.state(each) for each in ids] == ["pending", "pending"]


@pytest.mark.parametrize(
    "outcome", [ORPHANED, FAILED, TIMED_OUT, CANCELLED], ids=["crash", "fail", "time-out", "abort"]
)
async def test_c30_a_key_is_free_when_its_holder_has_ended_however_it_did(
    hands: Hands, outcome: Outcome
) -> None:
    await hands.know(a_job(max_attempts=1))
    first = await hands.dispatch(key="first", exclusive_key="once")
    await hands.reserve()
    (holder,) = await hands.claim(first.execution_id)
    waiter = await hands.dispatch(key="next", exclusive_key="once")
    assert await hands.claim(waiter.execution_id) == []
    told = why.explain(await why.read(hands.parts, waiter.execution_id))
    assert f"held by execution {holder.id}" in " ".join(
        [told.headline, *(a.text for a in told.also)]
    )
    await hands.settle(holder, outcome)
    (claim,) = await hands.claim(waiter.execution_id)
    assert claim.id == waiter.execution_id


async def test_c31_a_hung_run_ends_by_its_default_time_out_and_the_next_one_runs(
    hands: Hands,
) -> None:
    async def hangs(ctx: Any) -> None:
        if ctx.idempotency_key == "hung":
            await asyncio.Event().wait()

    work = a_job(body=hangs)
    assert work.settings.timeout == 300, "there is one where nobody set it"
    await hands.know(work)
    hung = await hands.dispatch(key="hung", exclusive_key="once")
    await hands.reserve()
    (claim,) = await hands.claim(hung.execution_id)
    waiter = await hands.dispatch(key="next", exclusive_key="once")
    async with hands.settling():
        flight = hands.fly(claim._replace(timeout=1, max_attempts=0))
        assert await hands.claim(waiter.execution_id) == []
        await until(lambda: flight.ended)
    assert await hands.state(hung.execution_id) == "failed"
    assert len(await hands.claim(waiter.execution_id)) == 1


async def test_c32_a_body_that_swallows_its_cancellation_keeps_no_slot(
    hands: Hands, told: Told
) -> None:
    let_go = asyncio.Event()

    async def swallows(ctx: Any) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    hands.crew.slots = 2
    await hands.know(a_job("stubborn", swallows, timeout=1, max_attempts=1), a_job())
    stubborn = [await hands.dispatch("stubborn") for _ in range(2)]
    for _ in range(10):
        await hands.dispatch()
    async with hands.working():
        await settled_by(hands, "work")
        states = [await hands.state(each.execution_id) for each in stubborn]
        assert states == ["failed", "failed"]
        assert len(hands.crew.inflight.zombies) == 2
        let_go.set()
    assert len(told.of("execution.zombie")) == 2
    (row, _) = await hands.sql("select last_error from task_executions where job = 'stubborn'")
    assert "timed out" in row["last_error"]
