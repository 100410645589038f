"""Recovery of what a worker left running: dead, too late to settle, or without knowing it.

One pure decision (`decide`) for recovery and workers alike, one fenced statement to write it. The
row lock on the worker arbitrates between daemons that saw the same death.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.lifecycle.batches import halved
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.reporting import tell_recovered
from taskengine.lifecycle.waking import deliver_moved
from taskengine.model.execution import Orphan
from taskengine.model.outcome import Ending, Outcome
from taskengine.model.settlement import Settlement, decide
from taskengine.store import executions, workers
from taskengine.store.execution_rows import Moved
from taskengine.store.pool import Connection, savepoint
from taskengine.telemetry.events import emit

BATCH = 500


async def bury(parts: Parts, worker_id: int, seen_beat: int | None, by: str) -> int | None:
    """Declare a worker dead, take its first rows in the same transaction; None: it lives, somebody
    else was first, or its row is held (the next turn tries again). `seen_beat` None: a lock file
    proves the death."""
    async with parts.store.transaction() as c:
        locked = await workers.lock(c, worker_id)
        if not locked or not await workers.declare_dead(c, worker_id, seen_beat):
            return None
        moved = await _take(parts, c, await executions.orphans_of(c, worker_id, BATCH), by)
    emit("worker.buried", worker_id=worker_id, proven=seen_beat is None, count=len(moved))
    await _finish(parts, moved, by)
    return len(moved)


async def take_rows(parts: Parts, worker_id: int, by: str) -> int:
    """Another batch of a dead worker's rows; how many there were."""
    async with parts.store.transaction() as c:
        orphans = await executions.orphans_of(c, worker_id, BATCH)
        moved = await _take(parts, c, orphans, by)
    await _finish(parts, moved, by)
    return len(orphans)


async def take_late(parts: Parts, by: str) -> int:
    """A batch of rows past all time that their worker does not hold; how many there were."""
    async with parts.store.transaction() as c:
        orphans = await executions.over_time(c, BATCH)
        moved = await _take(parts, c, orphans, by, "over_time")
    await _finish(parts, moved, by)
    return len(orphans)


async def give_back(parts: Parts, strays: Sequence[tuple[int, int]], by: str) -> None:
    """(id, token) of rows under us that we do not hold: pending again, the same attempt."""
    if not strays:
        return
    settlements = [
        Settlement(execution_id, token, "released", "pending", reason="lost_claim")
        for execution_id, token in sorted(strays)
    ]
    check_after = parts.config.recovery.check_after
    async with parts.store.connection() as c:
        moved = await executions.settle(c, settlements, by, parts.notice_queue, check_after)
    await _finish(parts, moved, by)


async def _take(
    parts: Parts, c: Connection, orphans: Sequence[Orphan], by: str, reason: str = "worker_died"
) -> list[Moved]:
    if not orphans:
        return []
    outcome = Outcome(Ending.ORPHANED, reason=reason, error=f"Orphaned({reason})")
    decided = [decide(orphan, outcome, parts.rng) for orphan in orphans]
    settlements = [s for s in decided if isinstance(s, Settlement)]
    check_after = parts.config.recovery.check_after

    async def settle(some: Sequence[Settlement]) -> list[Moved]:
        async with savepoint(c):
            return await executions.settle(c, some, by, parts.notice_queue, check_after)

    return await halved(settlements, settle, _left)


async def _left(settlement: Settlement, error: Exception) -> list[Moved]:
    """Postgres does not let it go: it stays, is told, and holds nobody up."""
    emit("execution.unsettled", execution_id=settlement.id, error=error)
    return []


async def _finish(parts: Parts, moved: Sequence[Moved], by: str) -> None:
    """After the commit: tell, deliver what is pending again, and the next of each key."""
    tell_recovered(moved, by)
    await deliver_moved(parts, moved)
