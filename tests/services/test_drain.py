"""The page on "Shutting down": a drain with jobs running, in process.

The daemon itself is asked to stop in `tests/system`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from taskengine.lifecycle.inflight import Flight
from taskengine.lifecycle.parts import Parts
from taskengine.model.surroundings import StopReason
from taskengine.runtime.supervisor import Limits, Supervisor, Tier
from taskengine.services import worker as module
from taskengine.services.orphans import DeadWorkers
from taskengine.services.worker import Worker
from tests.support.make import Hands, Told, a_job, settled_by
from tests.support.until import until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """From asking to cancelling, and from cancelling to giving up, takes less here."""
    monkeypatch.setattr(module, "_ABORT_SECONDS", 0.1)
    monkeypatch.setattr(module, "_CANCEL_SECONDS", 0.3)


class Process:
    """A daemon of two tiers: the heartbeat, and the worker."""

    def __init__(self, hands: Hands) -> None:
        self.stop = asyncio.Event()
        tiers = (Tier("beats", (hands.heartbeat,)), Tier("works", (Worker(hands.crew),)))
        self.supervisor = Supervisor(tiers, hands.parts.clock, Limits(drain=30.0))
        self.running = asyncio.create_task(self.supervisor.run(self.stop))

    async def end(self) -> None:
        self.stop.set()
        await self.running


@asynccontextmanager
async def daemon(parts: Parts, drain: float) -> AsyncIterator[tuple[Hands, Process]]:
    """A daemon that drains for so many seconds; its process has to be ended by the test."""
    workers = parts.config.workers.model_copy(update={"drain_timeout": drain})
    hands = Hands(replace(parts, config=parts.config.model_copy(update={"workers": workers})))
    process = Process(hands)
    yield hands, process
    assert process.running.done()


class Bodies:
    """Jobs that run until the event is set, and who has begun."""

    def __init__(self) -> None:
        self.begun = 0
        self.let_go = asyncio.Event()

    async def until_let_go(self, ctx: Any) -> None:
        self.begun += 1
        await self.let_go.wait()

    async def for_good(self, ctx: Any) -> None:
        self.begun += 1
        await asyncio.Event().wait()

    async def looking(self, ctx: Any) -> None:
        self.begun += 1
        while True:
            ctx.checkpoint()
            await asyncio.sleep(0.01)


@pytest.fixture
def bodies() -> Bodies:
    return Bodies()


async def begin(hands: Hands, bodies: Bodies, **counts: int) -> dict[str, list[int]]:
    """Dispatch so many of each job, and wait until all have begun."""
    ids = {
        name: [(await hands.dispatch(name)).execution_id for _ in range(count)]
        for name, count in counts.items()
    }
    hands.crew.work.set()
    total = sum(counts.values())
    await until(lambda: bodies.begun == total)
    return ids


async def test_drain_those_that_end_in_time_succeed(parts: Parts, bodies: Bodies) -> None:
    async with daemon(parts, drain=20.0) as (hands, process):
        await hands.know(a_job("work", bodies.until_let_go))
        ids = await begin(hands, bodies, work=10)
        process.stop.set()
        await until(lambda: process.supervisor.draining)
        bodies.let_go.set()
        await process.end()
        for each in ids["work"]:
            row = await hands.row(each)
            assert (row["state"], row["attempt"], row["interruptions"]) == ("succeeded", 1, 0)


async def test_drain_while_quiet_nothing_new_begins_and_what_runs_goes_on(
    parts: Parts, bodies: Bodies
) -> None:
    async with daemon(parts, drain=20.0) as (hands, process):
        await hands.know(a_job("work", bodies.until_let_go))
        ids = await begin(hands, bodies, work=3)
        hands.crew.quiet()
        late = (await hands.dispatch("work")).execution_id
        beat = hands.identity.last_beat
        await until(lambda: hands.identity.last_beat != beat)  # polled several times by then
        assert (bodies.begun, await hands.at(late)) == (3, "queue")
        bodies.let_go.set()
        await until(lambda: not len(hands.crew.inflight))
        assert not process.supervisor.draining
        await process.end()
        rows = [await hands.row(each) for each in ids["work"]]
        assert {(row["state"], row["attempt"]) for row in rows} == {("succeeded", 1)}
        assert (await hands.row(late))["state"] == "pending"


async def test_drain_what_is_being_claimed_is_no_rest(parts: Parts, bodies: Bodies) -> None:
    """Whoever waits for the end of a drain must not stop the daemon between a claim and its begin."""
    heartbeat = parts.config.heartbeat.model_copy(update={"lease": 60.0})
    patient = replace(parts, config=parts.config.model_copy(update={"heartbeat": heartbeat}))
    async with daemon(patient, drain=20.0) as (hands, process):
        await hands.know(a_job("work", bodies.until_let_go))
        async with parts.store.transaction() as c:
            await c.execute("lock table task_queues in access exclusive mode")
            await hands.dispatch("work")
            await until(lambda: hands.crew.acquirer.claiming)
            hands.crew.quiet()
            assert (len(hands.crew.inflight), hands.crew.idle) == (0, False)
        await until(lambda: bodies.begun)
        assert not hands.crew.idle
        bodies.let_go.set()
        await until(lambda: hands.crew.idle)
        await process.end()


async def test_drain_the_others_go_by_on_interrupt_with_their_attempt_unchanged(
    parts: Parts, bodies: Bodies
) -> None:
    async with daemon(parts, drain=0.1) as (hands, process):
        await hands.know(
            a_job("sleeps", bodies.for_good),
            a_job("looks", bodies.looking),
            a_job("fragile", bodies.for_good, on_interrupt="fail"),
        )
        ids = await begin(hands, bodies, sleeps=5, looks=5, fragile=2)
        await process.end()
        for each in ids["sleeps"] + ids["looks"]:
            row = await hands.row(each)
            assert (row["state"], row["attempt"], row["interruptions"]) == ("pending", 1, 1)
            assert await hands.history(each) == ["interrupted"]
            assert await hands.at(each) == "queue"
        for each in ids["fragile"]:
            row = await hands.row(each)
            assert (row["state"], row["attempt"]) == ("failed", 1)


async def test_drain_what_was_interrupted_runs_after_the_restart(
    parts: Parts, bodies: Bodies
) -> None:
    async with daemon(parts, drain=0.0) as (hands, process):
        await hands.know(a_job("work", bodies.until_let_go))
        ids = await begin(hands, bodies, work=10)
        await process.end()
    bodies.let_go.set()
    after = await Hands(parts, "after").join()
    async with after.working():
        await settled_by(after, "work")
    for each in ids["work"]:
        row = await after.row(each)
        assert (row["state"], row["attempt"], row["worker_id"]) == (
            "succeeded",
            1,
            after.worker_id,
        )
    after.die()


async def test_drain_nothing_new_is_fetched(parts: Parts, bodies: Bodies) -> None:
    async with daemon(parts, drain=20.0) as (hands, process):
        await hands.know(a_job("work", bodies.until_let_go))
        await begin(hands, bodies, work=1)
        process.stop.set()
        await until(lambda: process.supervisor.draining)
        late = await hands.dispatch()
        hands.crew.work.set()
        bodies.let_go.set()
        await process.end()
        assert await hands.at(late.execution_id) == "queue"
        assert (await hands.row(late.execution_id))["fence"] == 0


async def test_drain_what_was_claimed_and_not_begun_is_released(
    parts: Parts, bodies: Bodies
) -> None:
    """Jobs that wait for a thread: their bodies have not begun."""
    let_go = threading.Event()

    def body(ctx: Any) -> None:
        bodies.begun += 1
        let_go.wait(20)

    async with daemon(parts, drain=0.1) as (hands, process):
        await hands.know(a_job("work", body))
        hands.crew.threads.resize(1)
        (running,) = (await begin(hands, bodies, work=1))["work"]
        sent = await hands.dispatch()
        (claim,) = await hands.claim(sent.execution_id)
        hands.fly(claim)
        await process.end()
        row = await hands.row(claim.id)
        assert (row["state"], row["attempt"], row["interruptions"]) == ("pending", 1, 0)
        (line,) = await hands.sql(
            "select move, reason from task_attempts where execution_id = $1", claim.id
        )
        assert tuple(line.values()) == ("released", "shutdown")
        assert await hands.state(running) == "running"
        let_go.set()


async def test_drain_a_thread_is_left_alone_and_recovery_decides(
    parts: Parts, bodies: Bodies
) -> None:
    let_go = threading.Event()

    def body(ctx: Any) -> None:
        bodies.begun += 1
        let_go.wait(20)

    async with daemon(parts, drain=0.1) as (hands, process):
        await hands.know(a_job("work", body))
        (left,) = (await begin(hands, bodies, work=1))["work"]
        before = await hands.row(left)
        await process.end()
        assert await hands.row(left) == before
        let_go.set()
    after = await Hands(parts, "after").join()
    await DeadWorkers(parts, after.identity, after.watch).tick()
    row = await after.row(left)
    assert (row["state"], row["attempt"], row["orphanings"]) == ("pending", 2, 1)
    after.die()


async def test_drain_a_thread_that_was_handed_its_body_and_had_not_begun_it_never_does(
    hands: Hands, bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Released or begun, never both: the thread may be anywhere before the body's first line."""
    handed, go_on, threads = threading.Event(), threading.Event(), hands.crew.threads
    begin_now = threads._begin

    def later(flight: Flight) -> bool:
        handed.set()
        go_on.wait(20)
        asked.append(begin_now(flight))
        return asked[-1]

    def body(ctx: Any) -> None:
        bodies.begun += 1

    asked: list[bool] = []
    monkeypatch.setattr(threads, "_begin", later)
    await hands.know(a_job("work", body))
    claim = await hands.running()
    async with hands.settling():
        flight = hands.fly(claim)
        await until(handed.is_set)
        hands.crew.pilot.interrupt(flight)
        await until(lambda: flight.ended)
    go_on.set()
    await until(lambda: asked)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["interruptions"]) == ("pending", 1, 0)
    assert await hands.history(claim.id) == ["released"]
    assert (bodies.begun, asked) == (0, [False])


async def test_drain_a_deadline_that_passes_meanwhile_is_a_deadline(
    hands: Hands, bodies: Bodies
) -> None:
    await hands.know(a_job("work", bodies.for_good))
    claim = (await hands.running())._replace(timeout=0.05)  # type: ignore[arg-type]
    async with hands.settling():
        flight = hands.fly(claim)
        flight.stop(StopReason.INTERRUPT)
        await until(lambda: flight.ended)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["interruptions"]) == ("pending", 2, 0)
    assert row["last_error"] == "timed out"


async def test_drain_a_second_signal_skips_the_waiting(parts: Parts, bodies: Bodies) -> None:
    async with daemon(parts, drain=3600.0) as (hands, process):
        await hands.know(a_job("work", bodies.for_good))
        (each,) = (await begin(hands, bodies, work=1))["work"]
        process.stop.set()
        await until(lambda: process.supervisor.draining)
        assert not process.running.done()
        process.supervisor.hurry()
        await process.end()
        row = await hands.row(each)
        assert (row["state"], row["attempt"], row["interruptions"]) == ("pending", 1, 1)


async def test_drain_waits_for_the_settlements_and_says_goodbye(
    parts: Parts, bodies: Bodies, told: Told
) -> None:
    async with daemon(parts, drain=20.0) as (hands, process):
        await hands.know(a_job("work", bodies.until_let_go))
        await begin(hands, bodies, work=20)
        bodies.let_go.set()
        await process.end()
        assert len(hands.crew.settler) == len(hands.crew.inflight) == 0
        (row,) = await hands.sql("select stopped_at, dead_at from task_workers")
        assert row["stopped_at"] is not None
        assert row["dead_at"] is None
        assert not await hands.sql("select from task_executions where state <> 'succeeded'")


async def test_drain_an_operators_cancel_meanwhile_is_a_cancel(
    parts: Parts, bodies: Bodies
) -> None:
    async with daemon(parts, drain=0.1) as (hands, process):
        await hands.know(a_job("work", bodies.for_good))
        (each,) = (await begin(hands, bodies, work=1))["work"]
        await hands.change(each, abort_requested_at="sql:now()")
        await process.end()
        assert await hands.state(each) == "cancelled"
