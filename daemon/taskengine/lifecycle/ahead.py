"""Looking past a backlog that waits for threads, for what needs none.

Guarantees: the queues stay as they are but for what is taken; a look goes on to the end, however
long the backlog; from there what is new is seen within `LOOK`, and after `_ANEW` seconds it begins
at the start again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taskengine.broker.queue import BadEpoch, Seen
from taskengine.errors import Away, BrokerUnavailable, StoreBusy
from taskengine.lifecycle.claiming import Why, judged
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Reservation
from taskengine.store import executions

LOOK = 0.5  # seconds from one look at all that is new to the next
_AHEAD = 500  # messages of a queue that are looked at together
_ANEW = 10.0  # seconds from the end of a backlog until it is looked through from its start again


class Ahead:
    """Where in each queue the last look ended."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seen: dict[str, Seen] = {}
        self._next = self._anew = 0.0
        self._amid = False  # the last look did not come to the end

    async def look(
        self, limits: Mapping[str, int], n: int, jobs: Sequence[str]
    ) -> tuple[list[Reservation], bool]:
        """Reserve up to `n` of these jobs from behind, each queue at most its limit; and whether the
        next look may follow at once."""
        now = self._parts.clock.monotonic()
        if now < self._next or not limits:
            return [], False
        if now >= self._anew and not self._amid:
            self._seen.clear()
            self._anew = now + _ANEW
        taken: list[Reservation] = []
        more = False
        try:
            more = await self._look(limits, n, jobs, taken)
        except BadEpoch:
            self._parts.memory.suspect()
        except (BrokerUnavailable, Away, StoreBusy):
            pass  # it was only a look; what was taken before is ours
        if self._amid:
            self._anew = now + _ANEW
        if not more and not taken:
            self._next = now + LOOK
        return taken, more

    async def _look(
        self, limits: Mapping[str, int], n: int, jobs: Sequence[str], taken: list[Reservation]
    ) -> bool:
        seen = await self._parts.queues.peek([(q, self._seen.get(q)) for q in limits], _AHEAD)
        self._amid = any(len(some) == _AHEAD for some in seen.values())
        wanted = await self._wanted([each.id for some in seen.values() for each in some], jobs)
        more = False
        for queue, some in seen.items():
            ids = [each.id for each in some if each.id in wanted]
            ours = ids[: min(limits[queue], n - len(taken))]
            if ours:
                generation = self._parts.memory.generation
                taken += await self._parts.queues.take(queue, ours, generation)
            if len(ours) == len(ids) and some:  # else the next look begins here again
                self._seen[queue] = some[-1]
                more = more or len(some) == _AHEAD
        return more

    async def _wanted(self, ids: Sequence[int], jobs: Sequence[str]) -> set[int]:
        """Those that could be claimed now."""
        if not ids:
            return set()
        async with self._parts.store.connection() as c:
            rows = await executions.leftover(c, ids, jobs)
        return {row.id for row in rows if judged(row).why is Why.RACED}
