"""When flights are out of time: buckets of a tenth of a second instead of a timer a flight.

A timer each costs several µs a job to set and to cancel; almost none ever rings.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from taskengine.lifecycle.inflight import Flight

_WIDTH = 0.1  # seconds


class Deadlines:
    """Calls `ring(flight)` at most a tenth of a second after its time, unless it is discarded."""

    def __init__(self, ring: Callable[[Flight], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._buckets: dict[int, set[Flight]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, flight: Flight, seconds: float) -> None:
        """Ring for the flight in so many seconds; it is in one bucket at a time."""
        number = int((self._loop.time() + seconds) / _WIDTH) + 1
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = set()
            heapq.heappush(self._order, number)
            self._arm()
        flight.bucket = number
        bucket.add(flight)

    def discard(self, flight: Flight) -> None:
        bucket = self._buckets.get(flight.bucket)
        if bucket is not None:
            bucket.discard(flight)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._order:
            self._timer = self._loop.call_at(self._order[0] * _WIDTH, self._due)

    def _due(self) -> None:
        self._timer = None
        while self._order and self._order[0] * _WIDTH <= self._loop.time() + 0.001:
            for flight in self._buckets.pop(heapq.heappop(self._order)):
                self._ring(flight)
        self._arm()
