"""How things stand: set by a background refresher, never by a scrape.

A value that cannot be known now (its store is away) is `None` and shown as NaN: an old number would
look like a good one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from taskengine.telemetry.metrics.labels import LOOPS, Label
from taskengine.telemetry.metrics.standing import Standing

QUEUE_STATES: Final = ("waiting", "delayed", "running", "failed")
DIVERGENCES: Final = (
    "pending_without_message",
    "message_without_row",
    "processing_without_owner",
    "delayed_past_due",
)


class Gauges:
    """Setters, one for each gauge. Ages and lengths are in seconds, times in seconds since 1970."""

    def __init__(
        self, registry: CollectorRegistry, queues: Sequence[str], sources: Sequence[str]
    ) -> None:
        self._registry = registry
        self._queues = tuple(queues)
        self._sources = Label(sources)
        self._loops = Label(room=LOOPS)
        self._dropped = 0
        self._of_queues()
        self._of_workers()
        self._of_loops()
        self._of_webhooks()
        self._of_stores()
        self._of_process()
        self.standing = Standing(registry, queues, sources)

    # ---- queues and workers ----------------------------------------------------------------------

    def queue_depth(self, queue: str, state: str, count: float | None) -> None:
        """Executions of a listed queue that are waiting, delayed, running, or failed (24 h)."""
        if queue in self._queues and state in QUEUE_STATES:
            self._depth.labels(queue, state).set(_number(count))

    def queue_oldest_age(self, queue: str, seconds: float | None) -> None:
        """How long the oldest due execution of a queue has waited; 0 where none waits."""
        if queue in self._queues:
            self._oldest.labels(queue).set(_number(seconds))

    def slots(self, busy: int, free: int) -> None:
        self._slots.labels("busy").set(busy)
        self._slots.labels("free").set(free)

    def zombies(self, count: int) -> None:
        """Bodies that go on after their deadline."""
        self._zombies.set(count)

    def lost_threads(self, count: int) -> None:
        """Threads that a body keeps after its deadline."""
        self._lost_threads.set(count)

    # ---- loops -----------------------------------------------------------------------------------

    def loop_turn(self, loop: str, ended_at: float, seconds: float) -> None:
        """A turn of a loop has ended."""
        name = self._loops.learn(loop)
        self._last_turn.labels(name).set(ended_at)
        self._turn_length.labels(name).set(seconds)

    def loop_stalled(self, loop: str, stalled: bool) -> None:
        """Whether a loop has not moved for half of what ends the process."""
        self._stalled.labels(self._loops.learn(loop)).set(stalled)

    def event_loop_lag(self, seconds: float) -> None:
        """The worst lateness of the last minute."""
        self._lag.set(seconds)

    # ---- webhooks --------------------------------------------------------------------------------

    def webhooks(self, found: Mapping[str, tuple[int, float]] | None) -> None:
        """{source: (unprocessed events, age of the oldest)}; a source left out has none."""
        counts = dict.fromkeys(self._sources.values, (0, 0.0))
        for source, (count, age) in (found or {}).items():
            label = self._sources.learn(source)
            counts[label] = (counts[label][0] + count, max(counts[label][1], age))
        for label, (count, age) in counts.items():
            self._unprocessed.labels(label).set(math.nan if found is None else count)
            self._unprocessed_age.labels(label).set(math.nan if found is None else age)

    # ---- stores and process ----------------------------------------------------------------------

    def pool(self, open_: int, idle: int, most: int) -> None:
        """Connections of the Postgres pool."""
        self._pool.labels("busy").set(open_ - idle)
        self._pool.labels("idle").set(idle)
        self._pool_max.set(most)

    def postgres_up(self, up: bool) -> None:
        self._postgres.set(up)

    def redis_up(self, up: bool | None) -> None:
        """None: it is switched off."""
        self._redis.set(_number(up))

    def redis_enabled(self, enabled: bool) -> None:
        self._redis_enabled.set(enabled)

    def clock_ahead(self, seconds: float | None) -> None:
        """How far this host's clock is ahead of the database's; None: not known yet."""
        self._ahead.set(_number(seconds))

    def redis_evicts(self, evicts: bool) -> None:
        """Whether Redis's eviction policy may drop keys."""
        self._evicts.set(evicts)

    def divergence(self, counts: Mapping[str, int] | None) -> None:
        """Where Redis and Postgres do not say the same, by class."""
        for name in DIVERGENCES:
            self._divergence.labels(name).set(math.nan if counts is None else counts.get(name, 0))

    def direct_mode(self, direct: bool) -> None:
        """Whether workers claim straight from Postgres, because Redis is away."""
        self._direct.set(direct)

    def draining(self, draining: bool) -> None:
        self._draining.set(draining)

    def log_dropped(self, total: int) -> None:
        """Log lines lost since the start, because nobody read the pipe."""
        self._log_drops.inc(max(0, total - self._dropped))
        self._dropped = max(self._dropped, total)

    # ---- what they are called --------------------------------------------------------------------

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"taskengine_{name}", text, labels, registry=self._registry)

    def _of_queues(self) -> None:
        self._depth = self._gauge(
            "queue_depth", "Executions of a queue by state (failed: in 24 h).", "queue", "state"
        )
        self._oldest = self._gauge(
            "queue_oldest_age_seconds", "How long the oldest due execution has waited.", "queue"
        )
        for queue in self._queues:
            self._oldest.labels(queue).set(0)
            for state in QUEUE_STATES:
                self._depth.labels(queue, state).set(0)

    def _of_workers(self) -> None:
        self._slots = self._gauge("slots", "Slots of this worker.", "state")
        self.slots(0, 0)
        self._zombies = self._gauge("zombies", "Bodies that go on after their deadline.")
        self._lost_threads = self._gauge("lost_threads", "Threads kept past a deadline.")

    def _of_loops(self) -> None:
        self._last_turn = self._gauge(
            "loop_last_turn_timestamp_seconds", "When a loop's last turn ended.", "loop"
        )
        self._turn_length = self._gauge(
            "loop_last_turn_seconds", "How long a loop's last turn took.", "loop"
        )
        self._stalled = self._gauge(
            "loop_stalled", "Whether a loop stands still for half of stall_limit.", "loop"
        )
        self._lag = self._gauge("event_loop_lag_seconds", "Worst lateness in 30 to 60 s.")

    def _of_webhooks(self) -> None:
        self._unprocessed = self._gauge(
            "webhooks_unprocessed", "Events received and not processed.", "source"
        )
        self._unprocessed_age = self._gauge(
            "webhooks_oldest_age_seconds", "Age of the oldest unprocessed event.", "source"
        )
        self.webhooks({})

    def _of_stores(self) -> None:
        self._pool = self._gauge("pool_connections", "Connections to Postgres.", "state")
        self._pool_max = self._gauge("pool_connections_max", "Connections allowed.")
        self.pool(0, 0, 0)
        self._postgres = self._gauge("postgres_up", "Whether Postgres answers.")
        self._ahead = self._gauge(
            "clock_ahead_seconds", "This host's clock less the database's, as the last beat saw it."
        )
        self._redis_enabled = self._gauge("redis_enabled", "Whether Redis is in use at all.")
        self._redis = self._gauge("redis_up", "Whether Redis answers.")
        self._evicts = self._gauge("redis_evicts", "Whether Redis's policy may drop keys.")
        self._divergence = self._gauge(
            "divergence", "Executions of which Redis and Postgres do not say the same.", "class"
        )
        self.divergence({})
        self._direct = self._gauge("direct_mode", "Whether claims go straight to Postgres.")

    def _of_process(self) -> None:
        self._draining = self._gauge("draining", "Whether this daemon takes no new work.")
        self._log_drops = Counter(
            "taskengine_log_records_dropped", "Log lines lost.", registry=self._registry
        )


def _number(value: float | None) -> float:
    return math.nan if value is None else value
