"""Orphan recovery: dead workers (3 s), reservations nobody claimed (5 s), rows over time (5 min)."""

from __future__ import annotations

from taskengine.lifecycle.beats import Identity, Watch
from taskengine.lifecycle.leased import Leased
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.recover import BATCH, bury, take_late, take_rows
from taskengine.runtime.service import Periodic
from taskengine.store import workers
from taskengine.telemetry.events import emit


class DeadWorkers(Periodic):
    """Every daemon observes with its own beat; the row lock arbitrates."""

    name = "orphans"

    def __init__(self, parts: Parts, identity: Identity, watch: Watch) -> None:
        super().__init__(parts.clock, min(3.0, parts.config.heartbeat.beat), parts.rng)
        self._parts = parts
        self._identity = identity
        self._watch = watch
        watch.on_death.append(self.nudge)

    async def tick(self) -> bool:
        """Bury the dead, and go on with burials that were cut short."""
        rows = 0
        silent: dict[int, int | None] = dict(self._watch.silent())
        dead = silent | dict.fromkeys(self._watch.by_lock)
        for worker_id, beat in dead.items():
            rows += await bury(self._parts, worker_id, beat, self._identity.name) or 0
        more = False
        for worker_id in await self._unfinished():
            count = await take_rows(self._parts, worker_id, self._identity.name)
            rows += count
            more = more or count == BATCH
        self.found(recovered=rows, silent=len(silent))
        return more

    async def _unfinished(self) -> list[int]:
        async with self._parts.store.connection() as c:
            return await workers.dead_with_rows(c)


class Reservations(Periodic):
    """What was reserved and not claimed within the grace goes back, whoever holds it."""

    name = "reservations"

    def __init__(self, parts: Parts) -> None:
        grace = parts.config.recovery.reserve_grace
        super().__init__(parts.clock, min(5.0, grace), parts.rng)
        self._parts = parts
        self._grace = grace

    async def tick(self) -> bool:
        """One pass over the queues' processing sets."""
        moved = 0
        if not await self._parts.queues.reserved():
            return False
        for queue in self._parts.queues.names:
            count = await self._parts.queues.requeue(queue, self._grace)
            if count:
                emit("queue.requeued", queue=queue, count=count)
            moved += count
        self.found(requeued=moved)
        return moved > 0


class OverTime(Leased):
    """Rows that their worker could not settle within twice their time-out."""

    name = "over_time"

    def __init__(self, parts: Parts, identity: Identity, token: int) -> None:
        super().__init__(
            parts, identity.name, token, parts.config.recovery.over_time_sweep, parts.rng
        )

    async def sweep(self) -> bool:
        """One batch."""
        rows = await take_late(self.parts, self.lease.holder)
        self.found(recovered=rows)
        return rows == BATCH
