"""The promoter: delayed → queue, when the next one is due and at most a second late.

Due times are the database's: `now` is the monotonic clock plus the offset that the last beat
measured, so a wall clock that jumps moves nothing.
"""

from __future__ import annotations

from taskengine.broker.queue import BATCH
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.service import Periodic
from taskengine.telemetry.events import emit


class Promoter(Periodic):
    """Every daemon promotes: the mover is the pusher, atomically, so none can do it twice."""

    name = "promoter"

    def __init__(self, parts: Parts, identity: Identity) -> None:
        super().__init__(parts.clock, 1.0)
        self._parts = parts
        self._identity = identity
        self._next: int | None = None

    async def tick(self) -> bool:
        """One pass over all queues; more where a batch was full."""
        now = self._now()
        queues, self._next = await self._parts.queues.due(now)
        more = False
        promoted = 0
        for queue in queues:
            count, _ = await self._parts.queues.promote(queue, now)
            promoted += count
            more = more or count == BATCH
            emit("queue.promoted", queue=queue, count=count)
        if queues and not more:
            _, self._next = await self._parts.queues.due(now)
        self.found(promoted=promoted)
        return more

    def pause(self) -> float:
        """Until the next one is due, at most the interval."""
        if self._next is None:
            return self.interval
        return min(self.interval, max(0.005, (self._next - self._now()) / 1_000_000))

    def _now(self) -> int:
        """The database's clock in µs."""
        return self._identity.score(self._parts.clock.monotonic())
