"""The only home of time: a `Clock` is passed in wherever time is read or waited for.

Guarantees: `now()` is aware and in UTC; `sleep` and `wait` accept any number (negative and NaN mean
"not at all"). Durations are differences of `monotonic()`; due times belong to the database's clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from typing import Protocol

import anyio


class Clock(Protocol):
    """What the engine knows of time. `SystemClock` in production, a fake one in tests."""

    def now(self) -> datetime:
        """The wall clock, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never jumps; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait so long; 0 and less only lets others run."""
        ...


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds))


async def wait(clock: Clock, event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event, at most `seconds` by this clock; whether the event is set."""
    if event.is_set():
        await asyncio.sleep(0)
        return True
    if isinstance(clock, SystemClock):  # no second task: the workers wait here between two jobs
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await event.wait()
        return event.is_set()
    async with anyio.create_task_group() as group:

        async def alarm() -> None:
            await clock.sleep(seconds)
            group.cancel_scope.cancel()

        group.start_soon(alarm)
        await event.wait()
        group.cancel_scope.cancel()
    return event.is_set()
