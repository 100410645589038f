"""Which event counts where: the one table, and what a scrape is answered with."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Info
from prometheus_client.exposition import (
    CONTENT_TYPE_PLAIN_0_0_4,
    choose_encoder,
    generate_latest,
)

from taskengine.telemetry.events import Fields, subscribe
from taskengine.telemetry.metrics.families import Families
from taskengine.telemetry.metrics.gauges import Gauges
from taskengine.telemetry.metrics.process import ProcessMetrics
from taskengine.telemetry.metrics.series import Series


class Metrics:
    """Counts what happens in this process. `now` gives seconds since the epoch.

    `tasks` are the jobs known at the start as (queue, task); schedules and loops are made known to
    `series`. `dropped` says how many log lines were lost. `on_scrape` are called before each answer,
    to set what is in memory.
    """

    def __init__(
        self,
        *,
        version: str,
        queues: Sequence[str],
        sources: Sequence[str],
        now: Callable[[], float],
        tasks: Iterable[tuple[str, str]] = (),
        dropped: Callable[[], int] = int,
    ) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.gauges = Gauges(self.registry, queues, sources)
        self._now = now
        self._dropped = dropped
        self._families = Families(self.registry)
        self.series = Series(self._families, queues, sources, tuple(tasks))
        self.registry.register(ProcessMetrics(now))
        self.on_scrape: list[Callable[[], None]] = []
        Info("taskengine_build", "What runs here.", registry=self.registry).info(
            {"version": version}
        )
        self._handlers = self._table()

    def subscribe(self) -> Callable[[], None]:
        """Begin to count; returns the function that ends it."""
        return subscribe(self, self._handlers.__contains__)

    def __call__(self, event: str, fields: Fields) -> None:
        self._handlers[event](fields)

    def render(self, accept: str | None) -> tuple[bytes, str]:
        """(body, content type) for a scrape with this Accept header."""
        self.gauges.log_dropped(self._dropped())
        for refresh in self.on_scrape:
            refresh()
        try:
            encode, kind = choose_encoder(accept or "")
            return encode(self.registry), kind
        except (ValueError, TypeError):  # a version in the header that is none
            return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4

    def _table(self) -> Mapping[str, Callable[[Fields], None]]:
        """Which event counts where."""
        return {
            "executions.dispatched": self._dispatched,
            "executions.claimed": self._claimed,
            "executions.settled": self._settled,
            "execution.orphaned": self._orphaned,
            "execution.undelivered": self._undelivered,
            "queue.promoted": self._promoted,
            "queue.requeued": self._requeued,
            "queue.foreign_dropped": self._foreign,
            "queue.rowless_dropped": self._rowless,
            "notices.sent": self._notices_sent,
            "notices.failed": self._notices_failed,
            "schedule.fired": self._fired,
            "schedule.missed": self._missed,
            "webhook.received": self._received,
            "webhook.processed": self._processed,
            "webhook.recovered": self._recovered,
            "loop.turn": self._turn,
            "loop.failed": self._failed,
            "loop.away": self._away,
            "broker.away": self._broker_away,
            "broker.back": self._broker_back,
            "broker.direct": self._direct,
            "broker.off": self._direct,
            "broker.direct_left": self._direct_left,
        }

    # ---- executions ------------------------------------------------------------------------------

    def _dispatched(self, fields: Fields) -> None:
        for (queue, task), count in Tally(row[:2] for row in fields["rows"]).items():
            self.series.dispatched(queue, task).inc(count)

    def _claimed(self, fields: Fields) -> None:
        rows = fields["rows"]
        for (queue, task), count in Tally((row[0], row[1]) for row in rows).items():
            self.series.claimed(queue, task).inc(count)
        for queue, _, waited in rows:
            self.series.wait(queue).observe(max(0.0, waited))

    def _settled(self, fields: Fields) -> None:
        rows = fields["rows"]
        for (queue, task, outcome), count in Tally(row[:3] for row in rows).items():
            self.series.settled(queue, task, outcome).inc(count)
        ran = [row for row in rows if row[3] is not None]
        slowest = {row[:2]: row for row in sorted(ran, key=lambda row: row[3])}
        for row in ran:
            queue, task, _, seconds, execution_id = row
            # An exemplar costs more than the count itself: one a batch is enough.
            named = {"execution_id": str(execution_id)} if slowest[queue, task] is row else None
            self.series.duration(queue, task).observe(max(0.0, seconds), named)

    def _orphaned(self, fields: Fields) -> None:
        self.series.orphaned(fields["queue"]).inc(fields.get("count", 1))

    def _undelivered(self, fields: Fields) -> None:
        self._families.undelivered.inc(fields.get("count", 1))

    def _promoted(self, fields: Fields) -> None:
        self.series.promoted(fields["queue"]).inc(fields.get("count", 1))

    def _requeued(self, fields: Fields) -> None:
        self.series.requeued(fields["queue"]).inc(fields.get("count", 1))

    def _foreign(self, fields: Fields) -> None:
        self.series.foreign(fields["queue"]).inc(fields["count"])

    def _rowless(self, fields: Fields) -> None:
        self.series.rowless(fields["queue"]).inc(fields["count"])

    def _notices_sent(self, fields: Fields) -> None:
        self.series.notices("sent").inc(fields["count"])

    def _notices_failed(self, fields: Fields) -> None:
        self.series.notices("failed").inc(fields["count"])

    # ---- schedules and webhooks ------------------------------------------------------------------

    def _fired(self, fields: Fields) -> None:
        self.series.fires(fields["task"]).inc(fields.get("count", 1))

    def _missed(self, fields: Fields) -> None:
        self.series.misses(fields["task"], fields["reason"]).inc(fields.get("count", 1))

    def _received(self, fields: Fields) -> None:
        self.series.received(fields["source"], fields["result"]).inc()
        if (seconds := fields.get("seconds")) is not None:
            self._families.request.observe(max(0.0, seconds))

    def _processed(self, fields: Fields) -> None:
        self.series.processed(fields["source"]).inc(fields.get("count", 1))

    def _recovered(self, fields: Fields) -> None:
        self.series.recovered(fields["source"]).inc(fields.get("count", 1))

    # ---- loops and stores ------------------------------------------------------------------------

    def _turn(self, fields: Fields) -> None:
        self.series.turns(fields["loop"], "done").inc()
        self.gauges.loop_turn(fields["loop"], self._now(), fields["seconds"])

    def _failed(self, fields: Fields) -> None:
        self.series.turns(fields["loop"], "failed").inc()

    def _away(self, fields: Fields) -> None:
        self.series.turns(fields["loop"], "away").inc()
        self.gauges.loop_turn(fields["loop"], self._now(), fields["seconds"])

    def _broker_away(self, _: Fields) -> None:
        self._families.redis_losses.inc()
        self.gauges.redis_up(False)

    def _broker_back(self, _: Fields) -> None:
        self.gauges.redis_up(True)

    def _direct(self, _: Fields) -> None:
        self.gauges.direct_mode(True)

    def _direct_left(self, _: Fields) -> None:
        self.gauges.direct_mode(False)
