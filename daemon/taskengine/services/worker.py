"""The workers: reserve, claim, run, settle, strung together over this process's slots.

Strict priority by the order of the queues, with an optional reserved share for each; one fetcher
asks for as many ids as there are free slots, is woken by pushes, and else polls each second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import anyio

from taskengine.errors import BrokerUnavailable
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.inflight import Flight
from taskengine.model.context import JobContext, StopReason
from taskengine.model.execution import Claim
from taskengine.model.outcome import Ending, Outcome
from taskengine.runtime.clock import wait
from taskengine.runtime.service import Service
from taskengine.telemetry.events import emit

_BACKLOG = 5000  # settlements that may wait before nothing more is fetched
_ABORT_SECONDS = 5.0  # from asking a body to stop to cancelling it, at shutdown
_CANCEL_SECONDS = 1.0


class Worker(Service):
    """The fetcher and the settler of this process."""

    name = "worker"

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._parts = crew.parts
        self._hurry = asyncio.Event()
        self._draining = False
        self._fetching = asyncio.Lock()
        self.last_turn = crew.parts.clock.monotonic()
        self._async_only = self._without_threads()

    async def run(self, ready: Callable[[], None]) -> None:
        """Fetch and settle until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._crew.settler.run)
            group.start_soon(self._crew.scribe.run, _nothing)
            ready()
            await self._fetch()

    async def drain(self) -> None:
        """Stop fetching, let bodies end, then ask, then cancel; settle all of it."""
        self._draining = self._crew.identity.draining = True
        self._crew.work.set()
        async with self._fetching:  # what is being claimed is started or released first
            pass
        await self._until_empty(self._parts.config.workers.drain_timeout)
        for flight in self._crew.inflight.unfinished():
            flight.stop(StopReason.INTERRUPT)
        await self._until_empty(_ABORT_SECONDS)
        for flight in self._crew.inflight.unfinished():
            self._crew.pilot.interrupt(flight)
        await self._until_empty(_CANCEL_SECONDS, hurried=False)
        for flight in self._crew.inflight.unfinished():
            claim = flight.claim
            emit("execution.left_running", execution_id=claim.id, task=claim.job)
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
            async with self._fetching:
                fetched = not self._draining and await self._turn()
            if not fetched:
                await self._rest()

    async def _rest(self) -> None:
        """Until something may have changed. Postgres wakes nobody: where claims go straight to it
        and nothing was left, a slot that gets free is no reason to ask again."""
        clock, interval = self._parts.clock, self._parts.config.workers.poll_interval
        direct = self._crew.direct
        if direct.on and not direct.more:
            await clock.sleep(interval)
        else:
            await wait(clock, self._crew.work, interval)

    async def _turn(self) -> bool:
        """One reserve and claim; whether there may be more at once."""
        crew = self._crew
        free = crew.slots - crew.inflight.busy
        if free <= 0 or len(crew.settler) > _BACKLOG or crew.identity.dead:
            return False
        jobs = None if crew.threads.free else self._async_only
        batch = min(free, self._parts.config.workers.claim_batch)
        if crew.direct.look():
            return await self._turn_direct(free, batch, jobs)
        try:
            reserved = await crew.acquirer.reserve(self._limits(free), batch)
        except BrokerUnavailable:
            return False
        if not reserved:
            return False
        claims = await crew.acquirer.claim(reserved, crew.identity.worker_id, jobs)
        await self._start(claims)
        await crew.acquirer.ack(claims)
        await crew.acquirer.put_away(reserved, claims, jobs, no_thread=jobs is not None)
        return True

    async def _turn_direct(self, free: int, batch: int, jobs: Sequence[str] | None) -> bool:
        """The same without Redis."""
        crew = self._crew
        known = crew.acquirer.jobs if jobs is None else jobs
        worker_id = crew.identity.worker_id
        claims, again = await crew.direct.claim(self._limits(free), batch, worker_id, known)
        await self._start(claims)
        crew.direct.more |= jobs is not None  # a thread that gets free is a reason to ask again
        return again

    def _limits(self, free: int) -> list[tuple[str, int]]:
        """How many each queue may have: all that is free but the others' unused reserves."""
        config = self._parts.config
        unused = {
            name: max(0, config.queue(name).reserved - self._crew.inflight.running[name])
            for name in config.workers.queues
        }
        total = sum(unused.values())
        limits = [(queue, free - total + own) for queue, own in unused.items()]
        return [(queue, limit) for queue, limit in limits if limit > 0]

    async def _start(self, claims: Sequence[Claim]) -> None:
        events = await self._crew.acquirer.events(claims)
        now = self._parts.clock.monotonic()
        room = self._crew.threads.free
        for claim in claims:
            job = self._parts.registry[claim.job]
            ctx = JobContext(claim, self._crew.backstage, events.get(claim.id))
            flight = Flight(claim, ctx, now)
            if not job.is_async:
                room -= 1
                if room < 0:
                    self._release(flight)
                    continue
            self._crew.pilot.start(job, flight)

    def _release(self, flight: Flight) -> None:
        """No thread is free for it: back to the queue, the same attempt, after a second."""
        self._crew.inflight.add(flight)
        flight.ended = True
        self._crew.inflight.free(flight)
        outcome = Outcome(Ending.RELEASED, reason="no free thread", delay=1.0)
        self._crew.settler.put(flight, outcome)

    def _without_threads(self) -> tuple[str, ...]:
        """The jobs that need no thread."""
        return tuple(n for n in self._parts.registry.names if self._parts.registry[n].is_async)

    async def _until_empty(self, seconds: float, *, hurried: bool = True) -> None:
        """Wait until every outcome is decided, at most so long; `hurry` cuts it short."""
        end = self._parts.clock.monotonic() + seconds
        while self._crew.inflight.unfinished() and self._parts.clock.monotonic() < end:
            if hurried and self._hurry.is_set():
                return
            await self._parts.clock.sleep(0.02)


def _nothing() -> None:
    """The scribe has nobody waiting for it."""
