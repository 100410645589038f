"""Keeps the gauges fresh: a scrape never asks a store."""

from __future__ import annotations

from taskengine.errors import Away
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.service import Periodic
from taskengine.services.worker import Crew
from taskengine.telemetry.metrics import Gauges

_EVERY = 5.0


class GaugeRefresher(Periodic):
    """Sets what can be known now; what cannot is NaN, because an old number looks like a good one."""

    name = "gauges"

    def __init__(self, parts: Parts, crew: Crew, gauges: Gauges) -> None:
        super().__init__(parts.clock, _EVERY)
        self._parts = parts
        self._crew = crew
        self._gauges = gauges

    async def tick(self) -> bool:
        """One refresh."""
        crew, gauges = self._crew, self._gauges
        gauges.slots(crew.inflight.busy, max(0, crew.slots - crew.inflight.busy))
        gauges.zombies(len(crew.inflight.zombies))
        gauges.lost_threads(crew.threads.lost)
        gauges.pool(*self._parts.store.usage())
        gauges.draining(crew.identity.draining)
        await self._depths()
        return False

    async def _depths(self) -> None:
        try:
            depths = await self._parts.queues.depths()
        except Away:
            self._gauges.redis_up(False)
            for queue in self._parts.queues.names:
                self._gauges.queue_depth(queue, "waiting", None)
                self._gauges.queue_depth(queue, "delayed", None)
            return
        self._gauges.redis_up(True)
        for queue, depth in depths.items():
            self._gauges.queue_depth(queue, "waiting", depth.waiting + depth.processing)
            self._gauges.queue_depth(queue, "delayed", depth.delayed)
            self._gauges.queue_depth(queue, "running", self._crew.inflight.running[queue])
