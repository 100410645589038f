"""The workers: reserve, claim, run, settle, strung together over this process's slots.

One fetcher takes turn after turn while there is more, is woken by pushes, and else polls each second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio

from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.fetch import Fetcher
from taskengine.model.surroundings import StopReason
from taskengine.runtime.clock import wait
from taskengine.runtime.service import Service
from taskengine.telemetry.events import emit
from taskengine.telemetry.origin import about

_ABORT_SECONDS = 5.0  # from asking a body to stop to cancelling it, at shutdown
_CANCEL_SECONDS = 1.0


class Worker(Service):
    """The fetcher and the settler of this process."""

    name = "worker"

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._parts = crew.parts
        self._hurry = asyncio.Event()
        self.last_turn = crew.parts.clock.monotonic()
        self._fetcher = Fetcher(crew)

    async def run(self, ready: Callable[[], None]) -> None:
        """Fetch and settle until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._crew.settler.run)
            group.start_soon(self._crew.scribe.run, _nothing)
            ready()
            await self._fetch()

    async def drain(self) -> None:
        """Stop fetching, let bodies end, then ask, then cancel; settle all of it."""
        self._crew.quiet()
        async with self._crew.fetching:  # what is being claimed is started or released first
            await self._fetcher.put_back()
        await self._until_empty(self._parts.config.workers.drain_timeout)
        for flight in self._crew.inflight.unfinished():
            flight.stop(StopReason.INTERRUPT)
        await self._until_empty(_ABORT_SECONDS)
        for flight in self._crew.inflight.unfinished():
            self._crew.pilot.interrupt(flight)
        await self._until_empty(_CANCEL_SECONDS, hurried=False)
        for flight in self._crew.inflight.unfinished():
            emit("execution.left_running", **about(flight.claim))
        await self._crew.settler.flush()

    def hurry(self) -> None:
        """Skip the waiting."""
        self._hurry.set()

    def report(self, now: float) -> dict[str, Any]:
        """The age of its last turn, and whether claims go straight to Postgres."""
        age = round(now - self.last_turn, 3)
        return {"age": age, "seconds": 0.0, "found": {"direct": self._crew.direct.on}}

    def stalled(self, now: float, limit: float) -> bool:
        """Neither a turn nor a repeated claim within the limit."""
        return now - max(self.last_turn, self._crew.acquirer.last_try) > limit

    async def _fetch(self) -> None:
        """Turn after turn: fetch while there is more, else wait to be woken."""
        while True:
            self.last_turn = self._parts.clock.monotonic()
            self._crew.work.clear()
            async with self._crew.fetching:
                fetched = await self._fetch_or_put_back()
            if not fetched:
                await self._rest()

    async def _fetch_or_put_back(self) -> bool:
        if not self._crew.identity.draining:
            return await self._fetcher.turn()
        await self._fetcher.put_back()
        return False

    async def _rest(self) -> None:
        """Until something may have changed. Postgres wakes nobody: where claims go straight to it
        and nothing was left, a slot that gets free is no reason to ask again."""
        clock, interval = self._parts.clock, self._fetcher.interval
        direct = self._crew.direct
        if direct.on and not direct.more:
            await clock.sleep(interval)
        else:
            await wait(clock, self._crew.work, interval)

    async def _until_empty(self, seconds: float, *, hurried: bool = True) -> None:
        """Wait until every outcome is decided, at most so long; `hurry` cuts it short."""
        end = self._parts.clock.monotonic() + seconds
        while self._crew.inflight.unfinished() and self._parts.clock.monotonic() < end:
            if hurried and self._hurry.is_set():
                return
            await self._parts.clock.sleep(0.02)


def _nothing() -> None:
    """The scribe has nobody waiting for it."""
