"""Real stores on an event loop of their own, and the daemons that live there, done by hand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from taskengine.config import Config
from taskengine.lifecycle.leased import Leased
from taskengine.lifecycle.parts import Parts, close_parts, open_parts
from taskengine.lifecycle.rebuild import recall
from taskengine.model.context import JobContext
from taskengine.model.execution import Claim, Reservation
from taskengine.model.outcome import Outcome, Verdict
from taskengine.model.registry import Registry
from taskengine.runtime.clock import SystemClock
from taskengine.services.deliveries import Deliveries
from taskengine.services.divergence import Divergence
from taskengine.services.orphans import DeadWorkers, OverTime, Reservations
from taskengine.services.promoter import Promoter
from taskengine.store import definitions, migrate, queues
from tests.properties.observer import OBSERVER
from tests.properties.shaky import Faults, shaky
from tests.support.make import INTERRUPTED, Hands, a_job

T = TypeVar("T")

_careful = a_job("careful", queue="low", on_interrupt="verify", max_attempts=5)


@_careful.verify
async def _was_it_done(ctx: JobContext) -> Verdict:
    """Never asked here: the answers are given by hand."""
    return Verdict.NOT_DONE


JOBS = (
    a_job("work", queue="default"),
    _careful,
    a_job("brittle", queue="low", on_interrupt="fail", max_attempts=1),
    a_job("taskengine.notify-failure", queue="low", notify_on_failure=False),
)
"""The second daemon does not know `brittle`."""

_EMPTY = """
truncate task_executions, task_attempts, task_workers, task_queues, task_leases, moves
restart identity cascade
"""

_LATER = """
update task_executions set
  run_at = run_at - $1 * interval '1 s', check_at = check_at - $1 * interval '1 s',
  created_at = created_at - $1 * interval '1 s', claimed_at = claimed_at - $1 * interval '1 s',
  deadline_at = deadline_at - $1 * interval '1 s'
"""


class Daemon(Hands):
    """Hands, with what each verb leaves for the next one."""

    def __init__(self, parts: Parts, name: str, faults: Faults) -> None:
        super().__init__(parts, name)
        self.faults = faults
        self.reserved: list[Reservation] = []
        self.claimed: Any = ()  # (reservations, claims): to be acknowledged and put away
        self.held: list[Claim] = []
        self.past: list[Claim] = []  # settled, or lost
        self.dead_workers = DeadWorkers(parts, self.identity, self.watch)
        self.requeue = Reservations(parts)
        self.over_time = OverTime(parts, self.identity, self.token)
        self.deliveries: Leased = Deliveries(parts, self.identity, self.token)
        self.divergence = Divergence(parts, self.identity, self.token)
        self.promoter = Promoter(parts, self.identity)

    def hold(self, claims: list[Claim]) -> None:
        """They fly from here on."""
        for claim in claims:
            self.crew.inflight.add(self.flight(claim))
        self.held += claims

    async def end(self, *ended: tuple[Claim, Outcome]) -> None:
        """These bodies have ended so; written and delivered as the worker does it."""
        async with self.settling():
            for claim, outcome in ended:
                self.let_go(claim)
                self.crew.settler.put(self._flight_of(claim), outcome)

    async def leave(self) -> None:
        """SIGTERM: what has begun is interrupted, the rest given back."""
        await self.end(*((claim, INTERRUPTED) for claim in list(self.held)))
        await self.heartbeat.drain()

    def let_go(self, claim: Claim) -> None:
        if claim in self.held:
            self.held.remove(claim)
            self.past.append(claim)

    def _flight_of(self, claim: Claim) -> Any:
        known = self.crew.inflight.get(claim.id)
        return known if known and known.claim is claim else self.flight(claim)

    def forget_lost(self) -> None:
        """What a beat said is no longer ours: the pilot's timers are not waited for."""
        for flight in self.crew.inflight:
            if flight.lost:
                self.crew.pilot._deadlines.discard(flight)
                self.crew.inflight.settled(flight)
                self.let_go(flight.claim)


class Site:
    """One for a module: opening and migrating costs more than a hundred steps."""

    def __init__(self, config: Config, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._runner = asyncio.Runner(loop_factory=loop)
        self.parts = self.do(self._open(config))
        self.daemons: list[Daemon] = []
        self._seed = 0

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _open(self, config: Config) -> Parts:
        await migrate.up(config.postgres)
        rng = random.Random(7)
        parts = await open_parts(config, Registry(), SystemClock(), rng, "taskengine-properties")
        async with parts.store.connection() as c:
            await definitions.register(c, [(job.name, job.settings) for job in JOBS])
            await c.execute(OBSERVER)
        return parts

    def close(self) -> None:
        self.clear()
        self.do(close_parts(self.parts))
        self._runner.close()

    def clear(self) -> None:
        """Nobody, nothing."""
        for daemon in self.daemons:
            daemon.die()
        self.daemons = []
        self._seed = 0
        self.do(self._clear())

    async def _clear(self) -> None:
        async with self.parts.store.connection() as c:
            await c.execute(_EMPTY)
        await self.flush()

    async def flush(self) -> None:
        """Redis forgets all."""
        if keys := await self.parts.client.command("KEYS", f"{self.parts.keys.prefix}:*"):
            await self.parts.client.command("DEL", *keys)

    async def join(self, *unknown: str) -> Daemon:
        """One more daemon, which knows all jobs but these."""
        self._seed += 1
        registry, faults = Registry(), Faults()
        for job in JOBS:
            if job.name not in unknown:
                registry.add(job)
        parts = shaky(self.parts, faults, registry, self._seed)
        daemon = Daemon(parts, f"daemon-{self._seed}", faults)
        await daemon.join()
        await recall(daemon.parts)
        self.daemons.append(daemon)
        return daemon

    async def pause(self, name: str, *, paused: bool) -> None:
        """Pause a queue, or resume it."""
        async with self.parts.store.connection() as c:
            if paused:
                await queues.pause(c, name, "ann", None)
            else:
                await queues.resume(c, name)

    async def lose(self, n: int) -> None:
        """Redis loses one key."""
        sets = await self._sets()
        await self.parts.client.command("DEL", sets[n % len(sets)])

    async def later(self, seconds: int) -> None:
        """So much time goes by, in both stores and in every process."""
        async with self.parts.store.connection() as c:
            await c.execute(_LATER, float(seconds))
            await c.execute(
                "update task_leases set expires_at = expires_at - $1 * interval '1 s'",
                float(seconds),
            )
        for key in await self._sets():
            found = await self.parts.client.command("ZRANGE", key, 0, -1, "WITHSCORES")
            for member, score in zip(found[::2], found[1::2], strict=True):
                at = max(0.0, float(score) - seconds * 1e6)
                await self.parts.client.command("ZADD", key, f"{at:.0f}", member)
        for daemon in self.daemons:
            for flight in daemon.crew.inflight:
                flight.started_at -= seconds

    async def _sets(self) -> list[str]:
        keys, names = self.parts.keys, self.parts.queues.names
        return [k(n) for k in (keys.queue, keys.delayed, keys.processing) for n in names]

    async def remember(self) -> dict[str, Any]:
        """Redis's file of now: the sets and the epoch."""
        command = self.parts.client.command
        file = {
            key: await command("ZRANGE", key, 0, -1, "WITHSCORES") for key in await self._sets()
        }
        epoch = self.parts.keys.epoch
        return {"sets": file, "epoch": await command("HGETALL", epoch)}

    async def restore(self, file: dict[str, Any]) -> None:
        """Another server begins with that file."""
        await self.flush()
        command = self.parts.client.command
        for key, members in file["sets"].items():
            for member, score in zip(members[::2], members[1::2], strict=True):
                await command("ZADD", key, score, member)
        if file["epoch"]:
            epoch = file["epoch"]
            flat = [x for p in epoch.items() for x in p] if isinstance(epoch, dict) else epoch
            await command("HSET", self.parts.keys.epoch, *flat, "run_id", "0123")
