"""Plain functions that are reserved here and wait for a thread of this process.

They are not claimed: a deadline starts at the claim, and a release would be written to the row.
Guarantees: no more than `most` wait, and none longer than `_PATIENCE`: they go back to the queues,
and for as long nothing waits here, so that another daemon that has a thread gets them. What is older
than half the reservations' grace is forgotten, because others may have it by then.
Nothing here is known to anybody else: a process that dies leaves all of it to the grace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from taskengine.lifecycle.threads import Threads
from taskengine.model.execution import Reservation
from taskengine.runtime.clock import Clock

_PATIENCE = 1.0  # seconds after which another daemon may have a thread sooner
_EACH = 16  # that wait for a thread
_FEWEST = 64  # whatever the threads: as many may be reserved together, most of which need none


class _Waiting(NamedTuple):
    reservation: Reservation
    since: float


class Parked:
    """A bounded list of reservations, the first queue's first, in each the oldest first."""

    def __init__(self, threads: Threads, queues: Sequence[str], clock: Clock, grace: float) -> None:
        self._threads = threads
        self._rank = {queue: place for place, queue in enumerate(queues)}
        self._clock = clock
        self._forget = grace / 2
        self._waiting: dict[int, _Waiting] = {}
        self._closed_until = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def most(self) -> int:
        """How many may wait."""
        return max(_FEWEST, _EACH * self._threads.count)

    @property
    def closed(self) -> bool:
        """Whether some have waited in vain a moment ago."""
        return self._clock.monotonic() < self._closed_until

    @property
    def backlog(self) -> bool:
        """Whether there is more to do than there are threads."""
        return bool(self._waiting) or self.closed

    @property
    def room(self) -> int:
        """For how many more; none while it is nearly full, so that not each thread asks for one."""
        room = self.most - len(self._waiting)
        return room if room >= self.most // 4 and not self.closed else 0

    def add(self, reservations: Iterable[Reservation], since: float) -> None:
        """They wait since then."""
        for each in reservations:
            self._waiting.setdefault(each.id, _Waiting(each, since))

    def take(self, n: int, limits: Sequence[tuple[str, int]]) -> list[Reservation]:
        """The first `n`, of each queue at most its limit."""
        room = dict(limits)
        taken: list[Reservation] = []
        for each, _ in sorted(self._waiting.values(), key=self._order):
            if len(taken) < n and room.get(each.queue, 0) > 0:
                room[each.queue] -= 1
                taken.append(each)
        for each in taken:
            del self._waiting[each.id]
        return taken

    def take_old(self) -> list[Reservation]:
        """Those that have waited in vain."""
        now, patience = self._clock.monotonic(), min(_PATIENCE, self._forget)
        old = [each for each in self._waiting.values() if now - each.since >= patience]
        for each in old:
            del self._waiting[each.reservation.id]
        if old:
            self._closed_until = now + patience
        return [each.reservation for each in old if now - each.since < self._forget]

    def take_all(self) -> list[Reservation]:
        """Nothing waits here any longer."""
        waiting, self._waiting = self._waiting, {}
        return [each.reservation for each in waiting.values()]

    def _order(self, waiting: _Waiting) -> tuple[int, float]:
        return self._rank.get(waiting.reservation.queue, len(self._rank)), waiting.since
