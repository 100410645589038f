"""The fetcher's turn: reserve, claim and begin as much as this process has slots and threads for.

Strict priority by the order of the queues, with an optional reserved share for each. Plain functions
are claimed only where a thread is free; a few more are parked unclaimed, and what waits behind them
and needs no thread is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.errors import BrokerUnavailable
from taskengine.lifecycle.ahead import LOOK, Ahead
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.direct import Few
from taskengine.lifecycle.inflight import Flight
from taskengine.lifecycle.parked import Parked
from taskengine.model.context import JobContext
from taskengine.model.execution import Claim, Reservation
from taskengine.model.outcome import Ending, Outcome

_BACKLOG = 5000  # settlements that may wait before nothing more is fetched


class Fetcher:
    """Called by one task at a time."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._parts = crew.parts
        self._jobs = self._async = self._sync = tuple[str, ...]()  # of which `_sync` need a thread
        grace = crew.parts.config.recovery.reserve_grace
        queues = crew.parts.config.workers.queues
        self.parked = Parked(crew.threads, queues, crew.parts.clock, grace)
        self._ahead = Ahead(crew.parts)

    @property
    def interval(self) -> float:
        """Seconds after which to look again though nobody has called."""
        poll = self._parts.config.workers.poll_interval
        return min(poll, LOOK) if self.parked.backlog else poll

    async def put_back(self) -> None:
        """Give back what waits here for a thread."""
        await self._crew.acquirer.put_away(self.parked.take_all(), [])

    async def turn(self) -> bool:
        """One reserve and claim; whether there may be more at once."""
        crew = self._crew
        await crew.acquirer.put_away(self.parked.take_old(), [])
        if self._free <= 0 or len(crew.settler) > _BACKLOG:
            return False
        if crew.identity.dead or crew.acquirer.rests:
            return False
        self._learn_kinds()
        if crew.direct.look():
            self.parked.take_all()  # Postgres gives them anew
            return await self._straight()
        await self._start_parked()
        return await self._first() or await self._behind()

    async def _first(self) -> bool:
        """The first ones of the queues: as many as can be begun, or parked."""
        crew, free, began = self._crew, self._free, self._parts.clock.monotonic()
        threads = crew.free_threads if self._sync else free
        batch = min(free, self._parts.config.workers.claim_batch, threads + self.parked.room)
        if batch <= 0:
            return False
        try:
            reserved = await crew.acquirer.reserve(self._limits(free), batch)
        except BrokerUnavailable:
            return False
        if len(reserved) <= threads:
            await self._claim(reserved)
        else:
            waiting = await self._claim(reserved, self._async) if self._async else reserved
            self.parked.add(waiting, began)
            await self._start_parked()
        return bool(reserved)

    async def _behind(self) -> bool:
        """Behind those that wait for a thread: what needs none."""
        free = self._free
        if not self.parked.backlog or not self._async or free <= 0:
            return False
        paused = self._crew.acquirer.paused
        limits = {queue: most for queue, most in self._limits(free) if queue not in paused}
        batch = min(free, self._parts.config.workers.claim_batch)
        reserved, more = await self._ahead.look(limits, batch, self._async)
        await self._claim(reserved, self._async)
        return more or bool(reserved)

    async def _straight(self) -> bool:
        """From Postgres, without Redis."""
        crew, free = self._crew, self._free
        threads = crew.free_threads if self._sync else free
        batch = min(free, self._parts.config.workers.claim_batch)
        jobs = self._async if threads < batch else crew.acquirer.jobs
        few = Few(self._sync, threads) if 0 < threads < batch else None
        worker_id, limits = crew.identity.worker_id, self._limits(free)
        asked = self._parts.clock.monotonic()
        claims, again = await crew.direct.claim(limits, batch, worker_id, jobs, few)
        await self._start(claims, asked)
        crew.direct.more |= threads == 0  # a thread that gets free is a reason to ask again
        return again

    async def _start_parked(self) -> None:
        """As many as there are threads; where some came to nothing, the next ones."""
        while self.parked and (n := min(self._free, self._crew.free_threads)) > 0:
            if not (taken := self.parked.take(n, self._limits(self._free))):
                return
            await self._claim(taken)

    async def _claim(
        self, reserved: Sequence[Reservation], jobs: Sequence[str] | None = None
    ) -> list[Reservation]:
        """Claim and begin them, and put away the others; but those that `jobs` leaves out because
        they need a thread are given back."""
        if not reserved:
            return []
        acquirer, worker_id = self._crew.acquirer, self._crew.identity.worker_id
        asked = self._parts.clock.monotonic()
        claims = await acquirer.claim(reserved, worker_id, jobs)
        await self._start(claims, asked)
        await acquirer.ack(claims)
        waiting = set[int]() if jobs is None else acquirer.take_unasked(self._sync)
        others = [each for each in reserved if each.id not in waiting]
        await acquirer.put_away(others, claims, jobs)
        return [each for each in reserved if each.id in waiting]

    async def _start(self, claims: Sequence[Claim], asked: float) -> None:
        begin_by = asked + self._parts.config.heartbeat.lease
        events = await self._crew.acquirer.events(claims)
        now = self._parts.clock.monotonic()
        room = self._crew.free_threads
        for claim in claims:
            job = self._parts.registry[claim.job]
            ctx = JobContext(claim, self._crew.backstage, events.get(claim.id))
            flight = Flight(claim, ctx, now, begin_by)
            if not job.is_async:
                room -= 1
                if room < 0:
                    self._release(flight)
                    continue
            self._crew.pilot.start(job, flight)

    def _release(self, flight: Flight) -> None:
        """The thread that was free for it is lost by now: the same attempt, after a second."""
        self._crew.inflight.add(flight)
        flight.ended = True
        self._crew.inflight.free(flight)
        self._crew.settler.put(flight, Outcome(Ending.RELEASED, reason="no free thread", delay=1.0))

    @property
    def _free(self) -> int:
        return self._crew.slots - self._crew.inflight.busy

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

    def _learn_kinds(self) -> None:
        """Which jobs need a thread."""
        registry, jobs = self._parts.registry, self._crew.acquirer.jobs
        if jobs is not self._jobs:
            plain = {name for name in registry.names if not registry[name].is_async}
            self._sync = tuple(name for name in jobs if name in plain)
            self._async = tuple(name for name in jobs if name not in plain)
            self._jobs = jobs
