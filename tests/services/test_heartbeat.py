"""The loop "heartbeat", and what a worker does that learns that it was declared dead."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from taskengine.lifecycle import pilot
from taskengine.lifecycle.leased import Lease
from taskengine.lifecycle.pulse import Pulse
from taskengine.model.execution import Claim
from taskengine.store import workers
from tests.support.make import FAILED, SUCCEEDED, Hands, Told, a_job
from tests.support.until import until


@pytest.fixture
def going_on() -> asyncio.Event:
    """The bodies run until it is set."""
    return asyncio.Event()


@pytest.fixture(autouse=True)
async def _work(hands: Hands, going_on: asyncio.Event) -> None:
    async def body(ctx: Any) -> None:
        await going_on.wait()

    await hands.know(a_job("work", body))


async def worker(hands: Hands, worker_id: int | None = None) -> Any:
    number = worker_id or hands.worker_id
    return (await hands.sql("select * from task_workers where id = $1", number))[0]


# ---- what a beat does ----------------------------------------------------------------------------


async def test_a_beat_counts_up(hands: Hands) -> None:
    before = await worker(hands)
    await hands.beat()
    await hands.beat()
    after = await worker(hands)
    assert after["beat"] == before["beat"] + 2
    assert after["last_beat_at"] > before["last_beat_at"]


async def test_a_beat_measures_the_databases_clock(hands: Hands) -> None:
    hands.identity.offset = 0.0
    await hands.beat()
    now = hands.identity.database_now(hands.parts.clock.monotonic())
    (row,) = await hands.sql("select extract(epoch from clock_timestamp())::float8 as now")
    assert abs(row["now"] - now) < 5


async def test_a_beat_renews_the_leases_of_its_process_and_no_others(hands: Hands) -> None:
    lease = Lease(hands.parts, "a-sweep", "hands", hands.token)
    other = Lease(hands.parts, "another", "other", hands.token + 1)
    assert await lease.hold()
    assert await other.hold()
    before = await expiries(hands)
    await hands.beat()
    after = await expiries(hands)
    assert after["a-sweep"] > before["a-sweep"]
    assert after["another"] == before["another"]


async def expiries(hands: Hands) -> dict[str, Any]:
    return {r["name"]: r["expires_at"] for r in await hands.sql("select * from task_leases")}


async def test_a_beat_does_not_revive_a_lease_that_has_lapsed(hands: Hands) -> None:
    lease = Lease(hands.parts, "a-sweep", "hands", hands.token)
    await lease.hold()
    await hands.sql("update task_leases set expires_at = now() - interval '1 s'")
    before = await expiries(hands)
    await hands.beat()
    assert await expiries(hands) == before


async def test_a_beat_reports_what_is_held_past_its_deadline(hands: Hands) -> None:
    claim = await hands.running()
    flight = hands.flight(claim)
    hands.crew.inflight.add(flight)
    await hands.beat()
    assert (await worker(hands))["held_over_time"] == []
    flight.started_at -= claim.timeout + 1
    await hands.beat()
    assert (await worker(hands))["held_over_time"] == [claim.id]


async def test_a_beat_tells_how_the_loops_do(hands: Hands) -> None:
    hands.heartbeat.pulse._loops = lambda: '{"promoter": {"age": 0.1}}'
    hands.identity.draining = True
    await hands.beat()
    row = await worker(hands)
    assert (row["loops"], row["draining"]) == ('{"promoter": {"age": 0.1}}', True)


# ---- what it brings back -------------------------------------------------------------------------


async def test_a_lost_claim_aborts_its_body_and_settles_nothing(
    hands: Hands, told: Told, going_on: asyncio.Event
) -> None:
    claim = await hands.running()
    async with hands.settling():
        flight = hands.fly(claim)
        await hands.settle(claim, FAILED)  # somebody else decided
        before = await hands.row(claim.id)
        await hands.beat()
        await until(lambda: flight.ended)
    assert flight.lost
    assert await hands.row(claim.id) == before
    assert len(told.of("execution.claim_lost")) == 1
    assert (hands.crew.inflight.busy, len(hands.crew.inflight)) == (0, 0)


async def test_a_lost_claim_of_a_body_that_does_not_stop_frees_its_slot(
    hands: Hands, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pilot, "_GRACE", 0.01)
    stop = asyncio.Event()

    async def body(ctx: Any) -> None:
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                continue

    await hands.know(a_job("stubborn", body))
    claim = await hands.running("stubborn")
    flight = hands.fly(claim)
    await asyncio.sleep(0)
    await hands.settle(claim, FAILED)
    await hands.beat()
    await until(lambda: hands.crew.inflight.zombies)
    assert hands.crew.inflight.busy == 0
    assert len(hands.crew.settler) == 0
    stop.set()
    await until(lambda: not hands.crew.inflight.zombies)
    assert flight.ended


async def test_an_abort_asked_for_reaches_the_body(hands: Hands) -> None:
    flight = hands.fly(await hands.running())
    await hands.beat()
    assert not flight.ctx.should_abort()
    await hands.change(flight.claim.id, abort_requested_at="sql:now()")
    await hands.beat()
    assert flight.ctx.should_abort()
    flight.cancel(flight.ctx.stop_reason)  # type: ignore[arg-type]
    await until(lambda: flight.ended)


async def test_a_stray_row_is_released_by_token_when_seen_on_two_beats(
    hands: Hands, told: Told
) -> None:
    stray = await hands.running()
    await hands.beat()
    assert await hands.state(stray.id) == "running"
    await hands.beat()
    row = await hands.row(stray.id)
    assert (row["state"], row["attempt"], row["orphanings"]) == ("pending", 1, 0)
    assert await hands.at(stray.id) == "queue"
    assert [e["reason"] for e in told.of("execution.released")] == ["lost_claim"]


async def test_a_stray_row_that_was_claimed_anew_in_between_is_not_the_same(hands: Hands) -> None:
    stray = await hands.running()
    await hands.beat()
    await hands.settle(stray, SUCCEEDED)
    other = await hands.running()
    await hands.beat()
    assert await hands.state(other.id) == "running"  # seen once


async def test_a_claim_whose_reply_is_not_read_yet_is_no_stray(hands: Hands) -> None:
    claim = await hands.running()
    hands.crew.acquirer.claiming.add(claim.token)
    for _ in range(3):
        await hands.beat()
    assert await hands.state(claim.id) == "running"
    hands.crew.acquirer.claiming.clear()
    for _ in range(2):
        await hands.beat()
    assert await hands.state(claim.id) == "pending"


async def test_a_body_that_ever_began_is_not_released_as_lost_claim(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs, what has ended and waits for its settlement, and zombies: all are known."""
    going, ended, zombie = [await hands.running() for _ in range(3)]
    hands.crew.inflight.add(hands.flight(going))
    waiting = hands.flight(ended)
    hands.crew.inflight.add(waiting)
    waiting.ended = True
    hands.crew.inflight.haunt(hands.flight(zombie))
    for _ in range(3):
        await hands.beat()
    assert [await hands.state(c.id) for c in (going, ended, zombie)] == ["running"] * 3


async def test_rows_of_other_workers_are_none_of_its_business(hands: Hands) -> None:
    other = await Hands(hands.parts, "other").join()
    sent = await hands.dispatch()
    await other.claim(sent.execution_id)
    for _ in range(3):
        await hands.beat()
    assert await hands.state(sent.execution_id) == "running"
    other.die()


# ---- declared dead -------------------------------------------------------------------------------


async def declare_dead(hands: Hands) -> None:
    async with hands.parts.store.connection() as c:
        assert await workers.declare_dead(c, hands.worker_id, None)


async def fly_two(hands: Hands) -> list[Claim]:
    claims = [await hands.running() for _ in range(2)]
    for claim in claims:
        hands.fly(claim)
    await asyncio.sleep(0)
    return claims


async def test_declared_dead_it_aborts_settles_nothing_and_registers_anew(
    hands: Hands, told: Told
) -> None:
    async with hands.settling():
        claims = await fly_two(hands)
        flights = list(hands.crew.inflight)
        before = [await hands.row(claim.id) for claim in claims]
        former = hands.worker_id
        await declare_dead(hands)
        await hands.beat()
        await until(lambda: all(flight.ended for flight in flights))
    assert [await hands.row(claim.id) for claim in claims] == before
    assert hands.worker_id != former
    assert not hands.identity.dead
    assert (await worker(hands))["dead_at"] is None
    assert len(told.of("worker.declared_dead")) == 1
    sent = await hands.dispatch()
    assert await hands.claim(sent.execution_id, worker=former) == []
    assert len(await hands.claim(sent.execution_id)) == 1
    assert hands.crew.inflight.busy == 0


async def test_declared_dead_its_answer_of_a_former_life_changes_nothing(hands: Hands) -> None:
    async with hands.parts.store.connection() as c:
        old = await hands.heartbeat.pulse.beat(c)
    await declare_dead(hands)
    await hands.beat()
    offset = hands.identity.offset = 1.0
    hands.heartbeat.heard(old)
    assert hands.identity.offset == offset
    assert not hands.identity.dead


async def test_a_new_life_has_a_lock_file_of_its_own_and_takes_the_old_one_away(
    hands: Hands,
) -> None:
    old = (await worker(hands))["lock_path"]
    await declare_dead(hands)
    await hands.beat()
    new = (await worker(hands))["lock_path"]
    assert new != old
    assert [path.name for path in locks(hands)] == [new.rsplit("/", 1)[1]]


def locks(hands: Hands) -> list[Any]:
    return sorted(hands.parts.config.workers.lock_folder().iterdir())


# ---- the thread, and the end ---------------------------------------------------------------------


@pytest.fixture
async def fresh(hands: Hands) -> Hands:
    """A daemon that has not joined."""
    return Hands(hands.parts, "fresh")


async def test_it_beats_in_a_thread_of_its_own_while_the_main_loop_is_busy(fresh: Hands) -> None:
    ready = asyncio.Event()
    task = asyncio.create_task(fresh.heartbeat.run(ready.set))
    await ready.wait()
    before = (await worker(fresh))["beat"]
    time.sleep(0.7)  # the loop answers nobody; the beat is each 0.2 s
    after = (await worker(fresh))["beat"]
    assert after > before
    await end(fresh, task)


async def end(hands: Hands, task: asyncio.Task[None]) -> None:
    await hands.heartbeat.drain()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_stops_when_the_main_loop_has_not_answered_for_the_stall_limit(
    hands: Hands, told: Told
) -> None:
    limit = hands.parts.config.heartbeat.stall_limit
    before = (await worker(hands))["beat"]
    hands.heartbeat.pulse._loop = asyncio.get_running_loop()
    hands.heartbeat.pulse._answered_at -= limit + 1
    await hands.heartbeat.pulse.turn(hands.parts.store)
    assert (await worker(hands))["beat"] == before
    assert len(told.of("heartbeat.stalled")) == 1
    await asyncio.sleep(0)  # the main loop answers after all
    await hands.heartbeat.pulse.turn(hands.parts.store)
    assert (await worker(hands))["beat"] == before + 1


async def test_a_process_that_was_stopped_beats_on_at_once(hands: Hands, told: Told) -> None:
    stopped = hands.parts.config.heartbeat.stall_limit * 10
    before = (await worker(hands))["beat"]
    hands.heartbeat.pulse._loop = asyncio.get_running_loop()
    hands.heartbeat.pulse._asked_at -= stopped
    hands.heartbeat.pulse._answered_at -= stopped
    await hands.heartbeat.pulse.turn(hands.parts.store)
    assert told.of("heartbeat.stalled") == []
    assert (await worker(hands))["beat"] == before + 1


async def test_at_the_end_rows_claimed_and_never_begun_go_back_and_it_says_goodbye(
    fresh: Hands, hands: Hands
) -> None:
    ready = asyncio.Event()
    task = asyncio.create_task(fresh.heartbeat.run(ready.set))
    await ready.wait()
    await Lease(fresh.parts, "a-sweep", "fresh", fresh.token).hold()
    sent = await hands.dispatch()
    await hands.reserve()
    (claim,) = await fresh.claim(sent.execution_id)
    await fresh.ack(claim)
    await end(fresh, task)
    row = await hands.row(sent.execution_id)
    assert (row["state"], row["attempt"]) == ("pending", 1)
    assert await hands.at(sent.execution_id) == "queue"
    assert (await worker(fresh))["stopped_at"] is not None
    assert await hands.sql("select from task_leases") == []
    assert len(locks(hands)) == 1  # ours


async def test_a_beat_of_ours_that_fails_proves_nothing_about_others(
    hands: Hands, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hands.silence(hands.worker_id)
    assert hands.watch.silent() != []

    async def away(_: Any) -> Any:
        raise ConnectionResetError

    monkeypatch.setattr(Pulse, "beat", lambda self, c: away(c))
    hands.heartbeat.pulse._loop = asyncio.get_running_loop()
    await hands.heartbeat.pulse.turn(hands.parts.store)
    await asyncio.sleep(0)
    assert hands.watch.silent() == []
    assert len(told.of("heartbeat.missed")) == 1
