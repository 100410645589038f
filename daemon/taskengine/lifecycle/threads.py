"""Plain functions in threads, under a limiter of their own.

A thread cannot be stopped: one that goes on after its deadline keeps its place in the limiter and
its slot, and counts as lost until it ends. Guarantee: `Flight.began` is the truth. Between the
hand-over to a thread and the body's first line a flight may be stopped; then its body never begins.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread

from taskengine.lifecycle.inflight import Flight


class Threads:
    """The threads of this worker's jobs."""

    def __init__(self, count: int) -> None:
        self._limiter = anyio.CapacityLimiter(count)
        self._loop = asyncio.get_running_loop()
        self._lost: set[Flight] = set()
        self._beginning = threading.Lock()
        self._wanted = count

    @property
    def count(self) -> int:
        """How many there are, lost ones among them."""
        return self._wanted

    @property
    def free(self) -> int:
        return max(0, self._wanted - int(self._limiter.borrowed_tokens) - len(self._lost))

    @property
    def lost(self) -> int:
        """Threads whose body goes on although nobody waits for it."""
        return len(self._lost)

    def holds(self, flight: Flight) -> bool:
        """Whether the flight's thread goes on although nobody waits for it."""
        return flight in self._lost

    def resize(self, count: int) -> None:
        """Let so many run at a time from now on."""
        self._wanted = count
        self._limit()

    def withhold(self, flight: Flight) -> bool:
        """Have its body never begin; False where it has begun."""
        with self._beginning:
            flight.withheld = not flight.began
            return flight.withheld

    def _begin(self, flight: Flight) -> bool:
        with self._beginning:
            flight.began = not flight.withheld
            return flight.began

    async def run(self, flight: Flight, body: Callable[[], Any]) -> Any:
        """Run the body in a thread; cancelling leaves the thread to itself."""
        ended = False

        def work() -> Any:
            try:
                return body() if self._begin(flight) else None
            finally:
                self._loop.call_soon_threadsafe(over)

        def over() -> None:
            nonlocal ended
            ended = True
            if flight in self._lost:
                self._lost.discard(flight)
                self._limit()
                if flight.on_end is not None:
                    flight.on_end()

        flight.threaded = True
        flight.ctx.in_thread = True
        try:
            return await anyio.to_thread.run_sync(
                work, abandon_on_cancel=True, limiter=self._limiter
            )
        finally:
            began = not self.withhold(flight)
            if began and not ended:
                await asyncio.sleep(0)  # `over` may be on its way
            if began and not ended:
                self._lost.add(flight)
                self._limit()

    def _limit(self) -> None:
        self._limiter.total_tokens = max(1, self._wanted - len(self._lost))
