"""The loop "orphan recovery": dead workers, reservations nobody claimed, rows over time.

And what it refuses: a worker is dead only when a daemon has itself seen it silent for a whole lease
by unbroken beats of its own, or when a lock file proves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
import pytest_asyncio

from taskengine.lifecycle.beats import Watch
from taskengine.lifecycle.membership import Membership
from taskengine.lifecycle.presence import LockFile, boot_id, proven_dead
from taskengine.lifecycle.recover import BATCH, bury
from taskengine.services.orphans import DeadWorkers, OverTime, Reservations
from taskengine.store import workers
from tests.support.make import SUCCEEDED, Hands, Told, a_job

LEASE, BEAT = 12.0, 3.0


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job("work", max_attempts=10))


@pytest_asyncio.fixture
async def other(hands: Hands) -> AsyncIterator[Hands]:
    """Another daemon on the same host."""
    other = await Hands(hands.parts, "other").join()
    yield other
    other.die()


def dead_workers(hands: Hands) -> DeadWorkers:
    return DeadWorkers(hands.parts, hands.identity, hands.watch)


async def held_by(other: Hands, count: int = 1) -> list[int]:
    """Executions that run under the other one."""
    ids = [(await other.dispatch()).execution_id for _ in range(count)]
    await other.reserve()
    claims = await other.claim(*ids)
    await other.ack(*claims)
    for claim in claims:
        other.crew.inflight.add(other.flight(claim))
    return ids


async def states(hands: Hands, ids: Iterable[int]) -> list[str]:
    return [await hands.state(each) for each in ids]


# ---- the watch: silent for a whole lease, by unbroken beats of our own ----------------------------


def observed(*beats: tuple[float, int]) -> list[tuple[int, int]]:
    """Who is silent after beats of ours at these times that saw worker 7 at these counters."""
    watch = Watch(LEASE, BEAT)
    for now, counter in beats:
        watch.observe(now, [(7, counter)])
    return watch.silent()


def test_watch_silent_for_a_whole_lease_is_silent() -> None:
    assert observed((0, 5), (3, 5), (6, 5), (9, 5)) == []
    assert observed((0, 5), (3, 5), (6, 5), (9, 5), (12, 5)) == [(7, 5)]


def test_watch_a_counter_that_moves_begins_the_lease_anew() -> None:
    assert observed((0, 5), (3, 5), (6, 6), (9, 6), (12, 6), (15, 6)) == []
    assert observed((0, 5), (3, 5), (6, 6), (9, 6), (12, 6), (15, 6), (18, 6)) == [(7, 6)]


def test_watch_a_gap_in_our_own_beats_proves_nothing() -> None:
    """We were stopped or starved for as long as that: so may the database have been, for all."""
    assert observed((0, 5), (3, 5), (60, 5)) == []
    assert observed((0, 5), (60, 5), (63, 5), (66, 5), (69, 5)) == []
    assert observed((0, 5), (60, 5), (63, 5), (66, 5), (69, 5), (72, 5)) == [(7, 5)]


def test_watch_a_missed_beat_of_ours_begins_everything_anew() -> None:
    watch = Watch(LEASE, BEAT)
    for turn in range(5):
        watch.observe(turn * BEAT, [(7, 5)])
    assert watch.silent() == [(7, 5)]
    watch.missed()
    assert watch.silent() == []
    watch.observe(15.0, [(7, 5)])
    assert watch.silent() == []


def test_watch_a_worker_seen_for_the_first_time_has_a_whole_lease() -> None:
    watch = Watch(LEASE, BEAT)
    for turn in range(5):
        watch.observe(turn * BEAT, [])
    watch.observe(15.0, [(7, 5)])
    assert watch.silent() == []


def test_watch_a_worker_that_is_gone_is_forgotten() -> None:
    watch = Watch(LEASE, BEAT)
    for turn in range(5):
        watch.observe(turn * BEAT, [(7, 5)])
    watch.observe(15.0, [])
    assert watch.silent() == []


# ---- dead workers --------------------------------------------------------------------------------


async def test_dead_a_silent_worker_is_buried_and_its_rows_taken(
    hands: Hands, other: Hands, told: Told
) -> None:
    ids = await held_by(other, 3)
    await hands.silence(other.worker_id)
    await dead_workers(hands).tick()
    assert await states(hands, ids) == ["pending"] * 3
    (row,) = await hands.sql("select dead_at from task_workers where id = $1", other.worker_id)
    assert row["dead_at"] is not None
    assert [(e["count"], e["proven"]) for e in told.of("worker.buried")] == [(3, False)]
    assert [await hands.at(each) for each in ids] == ["queue"] * 3


async def test_dead_a_worker_that_beats_again_is_left_alone(hands: Hands, other: Hands) -> None:
    """The silence was seen, but by the time of the burial the counter has moved."""
    ids = await held_by(other)
    await hands.silence(other.worker_id)
    await other.beat()
    await dead_workers(hands).tick()
    assert await states(hands, ids) == ["running"]
    assert not other.identity.dead


async def test_dead_a_living_worker_is_left_alone(hands: Hands, other: Hands) -> None:
    ids = await held_by(other)
    for _ in range(3):
        await hands.beat()
        await other.beat()
        await dead_workers(hands).tick()
    assert await states(hands, ids) == ["running"]


async def test_dead_a_lock_file_proves_it_at_once(hands: Hands, other: Hands, told: Told) -> None:
    ids = await held_by(other)
    other.die()
    await hands.beat()
    await dead_workers(hands).tick()
    assert await states(hands, ids) == ["pending"]
    assert [e["proven"] for e in told.of("worker.buried")] == [True]


async def test_dead_a_missing_lock_file_proves_nothing(hands: Hands, other: Hands) -> None:
    ids = await held_by(other)
    (row,) = await hands.sql("select lock_path from task_workers where id = $1", other.worker_id)
    other.die()
    Path(row["lock_path"]).unlink()
    await hands.beat()
    await dead_workers(hands).tick()
    assert await states(hands, ids) == ["running"]


async def test_dead_a_lock_file_of_another_boot_proves_nothing(hands: Hands, other: Hands) -> None:
    ids = await held_by(other)
    other.die()
    await hands.sql(
        "update task_workers set boot_id = 'an earlier one' where id = $1", other.worker_id
    )
    await hands.beat()
    await dead_workers(hands).tick()
    assert await states(hands, ids) == ["running"]


async def test_dead_a_lock_that_is_held_proves_nothing(hands: Hands, other: Hands) -> None:
    async with hands.parts.store.connection() as c:
        living = await workers.living(c)
    assert len(living) == 2
    assert proven_dead(living, hands.worker_id, boot_id()) == []
    assert proven_dead(living, hands.worker_id, "") == []


def test_lock_file_of_one_worker_id_is_held_once_and_let_go_by_death(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    first, second = LockFile(folder, 7, "db"), LockFile(folder, 7, "db")
    assert first.take()
    assert not second.take()
    assert LockFile(folder, 8, "db").path != first.path
    first.release()
    assert not first.path.exists()
    assert second.take()
    second.release()


async def test_dead_two_daemons_that_bury_at_once_make_one_orphaning(
    hands: Hands, other: Hands
) -> None:
    ids = await held_by(other, 20)
    burials = await asyncio.gather(
        *(bury(hands.parts, other.worker_id, None, f"undertaker {n}") for n in range(5))
    )
    assert sorted(burials, key=str) == [20, None, None, None, None]
    for each in ids:
        row = await hands.row(each)
        assert (row["attempt"], row["orphanings"]) == (2, 1)
        assert await hands.history(each) == ["orphaned"]


async def test_dead_more_rows_than_a_batch_are_taken_turn_after_turn(
    hands: Hands, other: Hands
) -> None:
    count = BATCH + 20
    await hands.sql(
        "insert into task_executions (job, queue, idempotency_key, state, worker_id, claim_token,"
        " claimed_at, deadline_at) select 'work', 'default', 'k' || n, 'running', $1, n, now(),"
        " now() + interval '1 h' from generate_series(1, $2::int) n",
        other.worker_id,
        count,
    )
    await hands.silence(other.worker_id)
    service = dead_workers(hands)
    while await service.tick():
        pass
    (left,) = await hands.sql("select count(*) from task_executions where state = 'running'")
    assert left["count"] == 0
    (sums,) = await hands.sql("select sum(orphanings) as s from task_executions")
    assert sums["s"] == count


async def test_dead_a_burial_that_was_cut_short_is_gone_on_with(hands: Hands, other: Hands) -> None:
    """Declared dead, and then the undertaker died, too."""
    ids = await held_by(other)
    await hands.sql("update task_workers set dead_at = now() where id = $1", other.worker_id)
    await dead_workers(hands).tick()
    assert await states(hands, ids) == ["pending"]


async def test_dead_rows_left_under_a_worker_that_has_stopped_are_taken(
    hands: Hands, other: Hands
) -> None:
    """A thread that could not be stopped at its shutdown: recovery decides."""
    ids = await held_by(other)
    await Membership.leave(other.membership)
    await dead_workers(hands).tick()
    assert await states(hands, ids) == ["pending"]


async def test_dead_what_was_settled_in_the_last_moment_stays_settled(
    hands: Hands, other: Hands
) -> None:
    sent = await hands.dispatch()
    await hands.reserve()
    (claim,) = await other.claim(sent.execution_id)
    await other.settle(claim, SUCCEEDED)
    await hands.silence(other.worker_id)
    await dead_workers(hands).tick()
    assert await hands.state(claim.id) == "succeeded"
    assert await hands.history(claim.id) == []


async def test_dead_a_death_seen_has_the_loop_nudged(hands: Hands) -> None:
    service = dead_workers(hands)
    hands.watch.proven([])
    assert not service._nudged.is_set()
    hands.watch.proven([99])
    assert service._nudged.is_set()


# ---- reservations --------------------------------------------------------------------------------


async def test_reservations_past_the_grace_go_back_whoever_holds_them(
    hands: Hands, other: Hands
) -> None:
    await hands.know(a_job("urgent", queue="high"))
    old = [(await hands.dispatch()).execution_id, (await hands.dispatch("urgent")).execution_id]
    await other.reserve()
    await hands.age_reservations("default")
    await hands.age_reservations("high")
    fresh = (await hands.dispatch()).execution_id
    await other.reserve()
    assert await Reservations(hands.parts).tick()  # and once more at once
    assert [await hands.at(each) for each in (*old, fresh)] == ["queue", "queue", "processing"]
    assert not await Reservations(hands.parts).tick()


# ---- over time -----------------------------------------------------------------------------------


async def over_time(hands: Hands) -> None:
    await OverTime(hands.parts, hands.identity, hands.token).tick()


async def test_over_time_rows_past_twice_their_timeout_are_taken(hands: Hands) -> None:
    late, not_yet = await hands.running(), await hands.running()
    await hands.change(late.id, deadline_at=f"sql:now() - interval '{late.timeout + 1} s'")
    await hands.change(not_yet.id, deadline_at=f"sql:now() - interval '{late.timeout - 9} s'")
    await over_time(hands)
    assert await states(hands, (late.id, not_yet.id)) == ["pending", "running"]
    (line,) = await hands.sql("select move, reason, error from task_attempts")
    assert tuple(line.values()) == ("orphaned", "over_time", "Orphaned(over_time)")


async def test_over_time_rows_that_their_worker_reports_as_held_are_untouched(
    hands: Hands,
) -> None:
    claim = await hands.running()
    await hands.change(claim.id, deadline_at="sql:now() - interval '1 h'")
    flight = hands.flight(claim)
    hands.crew.inflight.add(flight)
    flight.started_at -= 3600
    await hands.beat()
    await over_time(hands)
    assert await hands.state(claim.id) == "running"


async def test_over_time_sweeps_only_under_the_lease(hands: Hands, other: Hands) -> None:
    claim = await hands.running()
    await over_time(other)  # holds the lease from here on
    await hands.change(claim.id, deadline_at="sql:now() - interval '1 h'")
    await over_time(hands)
    assert await hands.state(claim.id) == "running"
    await hands.sql("update task_leases set expires_at = now() - interval '1 s'")
    await over_time(hands)
    assert await hands.state(claim.id) == "pending"
