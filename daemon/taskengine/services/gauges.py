"""Keeps the gauges fresh: a scrape never asks a store.

What this process knows is set every few seconds; what only the database knows is asked for by one
daemon at a time, under a lease. What cannot be known now is NaN: an old number looks like a good
one.
"""

from __future__ import annotations

from taskengine.errors import Away, BrokerUnavailable
from taskengine.insight import divergence, redis_state
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.leased import Lease
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.service import Periodic
from taskengine.services.database_gauges import DatabaseGauges
from taskengine.telemetry.events import emit
from taskengine.telemetry.metrics import Gauges

_EVERY = 10.0
_POLICY_TURNS = 30


class GaugeRefresher(Periodic):
    """One refresh a turn."""

    name = "gauges"

    def __init__(self, parts: Parts, crew: Crew, token: int, gauges: Gauges) -> None:
        super().__init__(parts.clock, _EVERY)
        self._parts = parts
        self._crew = crew
        self._gauges = gauges
        self._lease = Lease(parts, self.name, crew.identity.name, token)
        self._database = DatabaseGauges(parts, gauges)
        self._leads = False
        gauges.redis_enabled(parts.config.redis.enabled)
        self._turns = 0
        self._policy: str | None = None
        self._compared_at: float | None = None

    async def tick(self) -> bool:
        """Ourselves, Redis, Postgres, and whether those two say the same."""
        self._of_process()
        await self._of_redis()
        await self._of_postgres()
        if self._leads and self._parts.config.redis.enabled:
            await self._of_both()
        return False

    def _of_process(self) -> None:
        crew, gauges = self._crew, self._gauges
        gauges.slots(crew.inflight.busy, max(0, crew.slots - crew.inflight.busy))
        gauges.zombies(len(crew.inflight.zombies))
        gauges.lost_threads(crew.threads.lost)
        gauges.pool(*self._parts.store.usage())
        gauges.draining(crew.identity.draining)
        clock, identity = self._parts.clock, crew.identity
        if identity.last_beat is not None:
            theirs = identity.database_now(clock.monotonic())
            gauges.clock_ahead(clock.now().timestamp() - theirs)

    async def _of_redis(self) -> None:
        """Depths as Redis has them; a policy that drops keys is shown."""
        if not self._parts.config.redis.enabled:
            self._gauges.redis_up(None)
            return
        try:
            depths = await self._parts.queues.depths()
        except Away:
            self._gauges.redis_up(False)
            for queue in self._parts.queues.names:
                self._gauges.queue_depth(queue, "waiting", None)
                self._gauges.queue_depth(queue, "delayed", None)
            return
        self._gauges.redis_up(True)
        await self._look_at_policy()
        for queue, depth in depths.items():
            self._gauges.queue_depth(queue, "waiting", depth.waiting + depth.processing)
            self._gauges.queue_depth(queue, "delayed", depth.delayed)

    async def _look_at_policy(self) -> None:
        """Now and then: may Redis drop keys? Told once, shown for as long as it holds."""
        if self._turns % _POLICY_TURNS == 0:
            policy = (await redis_state.info(self._parts)).get("maxmemory_policy")
            evicts = redis_state.may_evict(policy)
            self._gauges.redis_evicts(evicts)
            if evicts and policy != self._policy:
                emit("broker.evicts", policy=policy)
            self._policy = policy
        self._turns += 1

    async def _of_postgres(self) -> None:
        try:
            self._leads = await self._lease.hold()
            if self._leads:
                await self._database.refresh()
        except Away:
            self._gauges.postgres_up(False)
            self._forget()
            raise
        self._gauges.postgres_up(True)
        if not self._leads:
            self._forget()

    async def _of_both(self) -> None:
        """Now and then: the classes of divergence, seen twice."""
        now, every = self._parts.clock.monotonic(), self._parts.config.recovery.divergence
        if self._compared_at is not None and now - self._compared_at < every:
            return
        try:
            found = await divergence.seen_twice(self._parts)
        except BrokerUnavailable:
            self._compared_at = None
            self._gauges.divergence(None)
            return
        self._compared_at = now
        self._gauges.divergence(found.counts())

    def _forget(self) -> None:
        """Another daemon shows these, or nobody can."""
        self._compared_at = None
        self._gauges.divergence(None)
        self._database.forget()
