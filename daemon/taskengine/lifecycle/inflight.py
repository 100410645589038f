"""The claims of this process: what runs, what has ended and is not settled yet, what went zombie.

A flight is known from the claim until its settlement is answered (a zombie: until its body ends),
so that the beat never mistakes it for a stray row.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

from taskengine.model.context import JobContext
from taskengine.model.execution import Claim
from taskengine.model.surroundings import StopReason


@dataclass(slots=True, eq=False)
class Flight:
    """One claim on its way. Times are monotonic seconds."""

    claim: Claim
    ctx: JobContext
    started_at: float
    begin_by: float = inf  # the claim was asked for a lease before: it may be another's by now
    threaded: bool = False
    asking: bool = False  # the job's verify is asked; the body has not begun
    began: bool = False
    withheld: bool = False  # stopped before its thread began the body, which now never will
    ended: bool = False  # its outcome is decided: nothing later counts
    lost: bool = False  # the claim is no longer ours: nothing is settled
    task: asyncio.Task[None] | None = None
    bucket: int = 0  # of its deadline
    out_of_time: bool = False  # its deadline has rung once
    on_end: Callable[[], None] | None = None  # a lost thread has ended at last

    def stop(self, reason: StopReason) -> None:
        """Ask the body to stop at its next checkpoint."""
        self.ctx.ask_to_stop(reason)

    def cancel(self, reason: StopReason) -> None:
        """Stop a coroutine at its next await; a thread cannot be."""
        self.ctx.ask_to_stop(reason)
        if self.task is not None:
            self.task.cancel()


class Inflight:
    """All flights of this process, by execution id."""

    def __init__(self) -> None:
        self._flights: dict[int, Flight] = {}
        self._zombies: set[Flight] = set()
        self._changed: dict[Flight, None] = {}
        self.running: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[Flight]:
        return iter(list(self._flights.values()))

    def get(self, execution_id: int) -> Flight | None:
        return self._flights.get(execution_id)

    def add(self, flight: Flight) -> None:
        self._flights[flight.claim.id] = flight
        self.running[flight.claim.queue] += 1

    def free(self, flight: Flight) -> None:
        """Its slot is free."""
        self.running[flight.claim.queue] -= 1

    def settled(self, flight: Flight) -> None:
        """Its settlement is answered: it is known no longer."""
        if self._flights.get(flight.claim.id) is flight:
            del self._flights[flight.claim.id]

    def haunt(self, flight: Flight) -> None:
        """Its body goes on although its outcome is decided."""
        self._zombies.add(flight)

    def exorcise(self, flight: Flight) -> bool:
        """Its body has ended at last; whether it was a zombie."""
        if flight not in self._zombies:
            return False
        self._zombies.discard(flight)
        return True

    @property
    def zombies(self) -> tuple[Flight, ...]:
        return tuple(self._zombies)

    @property
    def busy(self) -> int:
        """Slots in use."""
        return self.running.total()

    def unfinished(self) -> list[Flight]:
        """Those whose outcome is not decided yet."""
        return [flight for flight in self._flights.values() if not flight.ended]

    def touch(self, flight: Flight) -> None:
        """It has progress or log lines to be written."""
        self._changed[flight] = None

    def take_changed(self) -> list[Flight]:
        changed, self._changed = list(self._changed), {}
        return changed

    def held(self) -> list[tuple[int, int]]:
        """(id, token) of every claim that this process still has a say in. Safe in any thread."""
        flights = list(self._flights.values())
        return [(f.claim.id, f.claim.token) for f in flights if not f.lost]

    def known(self) -> list[int]:
        """Ids whose body ever began here and may go on. Safe in any thread."""
        return [f.claim.id for f in list(self._flights.values())] + [
            f.claim.id for f in tuple(self._zombies)
        ]

    def over_time(self, now: float) -> list[int]:
        """Ids held past their deadline. Safe in any thread."""
        flights = list(self._flights.values())
        return [f.claim.id for f in flights if now - f.started_at > f.claim.timeout]
