"""A clock that stands still until a test moves it: waits cost nothing and end in their order."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


class FakeClock:
    """A `Clock`. `await clock.advance(60)` wakes every sleeper due in that minute, one by one."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if not seconds > 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), woken))
        await woken

    @property
    def sleeping(self) -> int:
        """How many wait on this clock now."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    @property
    def next_wake(self) -> float | None:
        """Seconds until the first sleeper is due; None where nobody sleeps."""
        self._forget_gone()
        return self._sleepers[0][0] - self._elapsed if self._sleepers else None

    async def advance(self, seconds: float) -> None:
        """Let time pass: sleepers wake in the order of their time, each at its own time, and what
        they start to wait for within these seconds ends within them too."""
        end = self._elapsed + seconds
        await self.settle()
        while self.next_wake is not None and self._sleepers[0][0] <= end:
            due, _, woken = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, due)
            woken.set_result(None)
            await self.settle()
        self._elapsed = max(self._elapsed, end)
        await self.settle()

    def jump(self, seconds: float) -> None:
        """The wall clock is set (forward or back); nobody wakes, durations do not change."""
        self._start += timedelta(seconds=seconds)

    async def settle(self, turns: int = 50) -> None:
        """Let everything that can run do so (without I/O)."""
        for _ in range(turns):
            await asyncio.sleep(0)

    def _forget_gone(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
