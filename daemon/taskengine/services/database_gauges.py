"""What only the database knows, asked for by the daemon that holds the lease and by no other.

The counts of queues and events are asked for at each turn; what walks all that is due, or looks for
work that nobody can do, once a minute.
"""

from __future__ import annotations

from taskengine.lifecycle.parts import Parts
from taskengine.store import queues, reports
from taskengine.store.pool import Connection
from taskengine.store.reports import QueueCounts
from taskengine.telemetry.metrics import Facts, Gauges

_SELDOM = 60.0
_QUARANTINED_MOST = 1000


class DatabaseGauges:
    """Sets the gauges, or says that they are not known here."""

    def __init__(self, parts: Parts, gauges: Gauges) -> None:
        self._parts = parts
        self._gauges = gauges
        self._looked_at: float | None = None

    async def refresh(self) -> None:
        """Ask, then show."""
        config = self._parts.config
        async with self._parts.store.connection() as c:
            found = {each.queue: each for each in await reports.queues(c)}
            events = await reports.webhooks(c, config.webhooks.min_age)
            facts = await self._facts(c, found) if self._due() else None
        for name in self._parts.queues.names:
            self._of_queue(name, found.get(name))
        self._gauges.webhooks({e.source: (e.unprocessed, e.oldest) for e in events})
        if facts is not None:
            stranded = {e.source: e.stranded for e in events}
            self._gauges.standing.show(facts._replace(stranded=stranded))
            self._looked_at = self._parts.clock.monotonic()

    def forget(self) -> None:
        """Another daemon shows these, or nobody can."""
        self._looked_at = None
        for name in self._parts.queues.names:
            states = ("running", "failed") if self._by_redis else _STATES
            for state in states:
                self._gauges.queue_depth(name, state, None)
            self._gauges.queue_oldest_age(name, None)
        self._gauges.webhooks(None)
        self._gauges.standing.show(None)

    @property
    def _by_redis(self) -> bool:
        """What waits is counted in Redis."""
        return self._parts.config.redis.enabled

    def _due(self) -> bool:
        now = self._parts.clock.monotonic()
        return self._looked_at is None or now - self._looked_at >= _SELDOM

    def _of_queue(self, name: str, counts: QueueCounts | None) -> None:
        counts = counts or QueueCounts(name, 0, 0, 0, 0, None)
        if not self._by_redis:
            self._gauges.queue_depth(name, "waiting", counts.waiting)
            self._gauges.queue_depth(name, "delayed", counts.delayed)
        self._gauges.queue_depth(name, "running", counts.running)
        self._gauges.queue_depth(name, "failed", counts.failed)
        self._gauges.queue_oldest_age(name, counts.oldest or 0.0)

    async def _facts(self, c: Connection, found: dict[str, QueueCounts]) -> Facts:
        listed = self._parts.config.engine.queues
        silence = self._parts.config.heartbeat.lease
        unlisted = {n: q.pending for n, q in found.items() if q.pending and n not in listed}
        return Facts(
            paused={each.name: 1 for each in await queues.paused(c)},
            quarantined=await reports.quarantined(c, _QUARANTINED_MOST),
            unpolled={e.name: e.waiting for e in await reports.unpolled(c, silence)},
            unlisted=unlisted,
            unknown_jobs={e.name: e.waiting for e in await reports.unknown_jobs(c, silence)},
        )


_STATES = ("waiting", "delayed", "running", "failed")
