"""What was reserved and not claimed goes where it belongs: dropped, delayed, pushed back, or marked
as a waiter for its exclusive key. Whoever dies in the middle leaves the rest to the grace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.claiming import Left, Why, judged
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.reporting import tell_rowless
from taskengine.lifecycle.waking import wake
from taskengine.model.execution import Delivery, Reservation
from taskengine.store import executions
from taskengine.store.execution_rows import Leftover
from taskengine.telemetry.events import emit

_LATER = 5_000_000  # µs: for what cannot be claimed here, or not now
_SOON = 1_000_000  # µs: for what only waits for a lane of this process
_DELAYS = {Why.UNKNOWN: _LATER, Why.LOCKED: _LATER, Why.BAD: _LATER, Why.LANE_FULL: _SOON}


class Sent(NamedTuple):
    """How many nothing stood in the way of, and the queues that are paused."""

    free: int
    paused: set[str]


class Leftovers:
    """Of one worker."""

    def __init__(self, parts: Parts, identity: Identity) -> None:
        self._parts = parts
        self._identity = identity

    async def send(
        self,
        rest: Mapping[int, Reservation],
        left: Mapping[int, Left],
        known: Sequence[str],
        jobs: Sequence[str],
    ) -> Sent:
        """`left`: what is known of them already; `known`: the jobs that were asked for, of `jobs`.
        Raises where a store is away."""
        found = [left[each] for each in rest if each in left]
        found += await self._look([each for each in rest if each not in left], known)
        await self._sort(rest, found)
        refused = [e.row for e in found if e.why is Why.KEY_TAKEN]
        free = await self._wait(rest, refused, jobs) if refused else 0
        unknown = [e.row.exclusive_key for e in found if e.why is Why.UNKNOWN]
        await wake(self._parts, unknown, known)  # nobody else of the key waits for this daemon
        paused = {e.row.queue for e in found if e.why is Why.PAUSED and e.row.queue}
        return Sent(free + sum(e.why is Why.RACED for e in found), paused)

    async def _look(self, ids: Sequence[int], known: Sequence[str]) -> list[Left]:
        """Why these were not claimed, by what their rows say now."""
        if not ids:
            return []
        async with self._parts.store.connection() as c:
            return [judged(row) for row in await executions.leftover(c, ids, known)]

    async def _sort(self, rest: Mapping[int, Reservation], left: Sequence[Left]) -> None:
        def those(*whys: Why) -> list[tuple[Reservation, Leftover]]:
            return [(rest[row.id], row) for row, why, _ in left if why in whys]

        now = self._now()
        later = [_at(r, row, row.score or 0) for r, row in those(Why.EARLY)]
        for why, delay in _DELAYS.items():
            later += [_at(r, row, now + delay) for r, row in those(why)]
        back = [_at(r, row, row.score or 0) for r, row in those(Why.PAUSED, Why.RACED)]
        gone = [r for r, _ in those(Why.OVER)]
        full = [row.queue for _, row in those(Why.LANE_FULL)]
        if full:
            emit("executions.lane_full", rows=full)
        if gone:
            await self._parts.queues.ack(gone)
            tell_rowless(r for r, row in those(Why.OVER) if row.queue is None)
        if later:
            await self._parts.queues.delay(later)
        if back:
            await self._parts.queues.put_back(back)

    async def _wait(
        self, rest: Mapping[int, Reservation], refused: Sequence[Leftover], jobs: Sequence[str]
    ) -> int:
        """Mark the refused waiters of a key and drop their messages: whoever leaves the key pushes
        the next. Marking looks at the key again, because it may have been left since: then it is
        tried again at once, and so is one that goes first; how many these are."""
        ids = sorted(row.id for row in refused)
        async with self._parts.store.connection() as c:
            answers = {row.id: row for row in await executions.mark_waiting(c, ids, jobs)}
        taken = {row.id for row in answers.values() if row.taken}
        marked = [rest[row.id] for row in answers.values() if row.marked]
        free = [_at(rest[r.id], r, r.score or 0) for r in refused if r.id not in taken]
        soon = self._now() + _SOON
        locked = [
            _at(rest[r.id], r, soon) for r in refused if r.id in taken and not answers[r.id].marked
        ]
        if marked:
            emit("executions.key_taken", count=len(marked))
            await self._parts.queues.ack(marked)
        if locked:
            await self._parts.queues.delay(locked)
        if free:
            await self._parts.queues.put_back(free)
        return len(free)

    def _now(self) -> int:
        """The database's clock in µs: the promoter goes by it, whatever ours says."""
        return self._identity.score(self._parts.clock.monotonic())


def _at(reservation: Reservation, row: Leftover, score: int) -> Delivery:
    return Delivery(reservation.id, row.queue or reservation.queue, score, True)
