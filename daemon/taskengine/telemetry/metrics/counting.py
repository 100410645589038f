"""Which event counts where: the one table, and what a scrape is answered with."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from prometheus_client import CollectorRegistry, Info
from prometheus_client.exposition import (
    CONTENT_TYPE_PLAIN_0_0_4,
    choose_encoder,
    generate_latest,
)

from taskengine.telemetry.events import Fields, subscribe
from taskengine.telemetry.metrics.families import (
    MISSES,
    NOTICES,
    OUTCOMES,
    RESULTS,
    TURNS,
    Families,
)
from taskengine.telemetry.metrics.gauges import Gauges
from taskengine.telemetry.metrics.labels import LOOPS, OTHER, Children, Label
from taskengine.telemetry.metrics.process import ProcessMetrics

_TASKS = 200  # that are met without having been made known
_REASONS = 20


class Metrics:
    """Counts what happens in this process. `now` gives seconds since the epoch.

    `tasks` are the jobs known at the start as (queue, task); more come by `know`. `dropped` says how
    many log lines were lost. `on_scrape` are called before each answer, to set what is in memory.
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
        self._queues = Label(queues)
        tasks = tuple(tasks)
        self._tasks = Label((task for _, task in tasks), room=_TASKS)
        self._sources = Label([*sources])
        self._children()
        self._from_zero()
        for queue, task in tasks:
            self.know(queue, task)
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

    def know(self, queue: str, task: str) -> None:
        """A job of the engine's: its series exist from now on."""
        self._of_dispatched(queue, task)
        self._of_claimed(queue, task)
        self._of_duration(queue, task)
        for outcome in OUTCOMES:
            self._of_settled(queue, task, outcome)

    def know_schedule(self, task: str) -> None:
        """A job that fires by itself: that it fired or was missed is counted from 0."""
        self._of_fires(task)
        for reason in MISSES:
            self._of_misses(task, reason)

    def know_loop(self, loop: str) -> None:
        """A loop of this process."""
        for result in TURNS:
            self._of_turns(loop, result)

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
            self._of_dispatched(queue, task).inc(count)

    def _claimed(self, fields: Fields) -> None:
        rows = fields["rows"]
        for (queue, task), count in Tally((row[0], row[1]) for row in rows).items():
            self._of_claimed(queue, task).inc(count)
        for queue, _, waited in rows:
            self._of_wait(queue).observe(max(0.0, waited))

    def _settled(self, fields: Fields) -> None:
        rows = fields["rows"]
        for (queue, task, outcome), count in Tally(row[:3] for row in rows).items():
            self._of_settled(queue, task, outcome).inc(count)
        ran = [row for row in rows if row[3] is not None]
        slowest = {row[:2]: row for row in sorted(ran, key=lambda row: row[3])}
        for row in ran:
            queue, task, _, seconds, execution_id = row
            # An exemplar costs more than the count itself: one a batch is enough.
            named = {"execution_id": str(execution_id)} if slowest[queue, task] is row else None
            self._of_duration(queue, task).observe(max(0.0, seconds), named)

    def _orphaned(self, fields: Fields) -> None:
        self._of_orphaned(fields["queue"]).inc(fields.get("count", 1))

    def _undelivered(self, fields: Fields) -> None:
        self._families.undelivered.inc(fields.get("count", 1))

    def _promoted(self, fields: Fields) -> None:
        self._of_promoted(fields["queue"]).inc(fields.get("count", 1))

    def _requeued(self, fields: Fields) -> None:
        self._of_requeued(fields["queue"]).inc(fields.get("count", 1))

    def _foreign(self, fields: Fields) -> None:
        self._of_foreign(fields["queue"]).inc(fields["count"])

    def _rowless(self, fields: Fields) -> None:
        self._of_rowless(fields["queue"]).inc(fields["count"])

    def _notices_sent(self, fields: Fields) -> None:
        self._of_notices("sent").inc(fields["count"])

    def _notices_failed(self, fields: Fields) -> None:
        self._of_notices("failed").inc(fields["count"])

    # ---- schedules and webhooks ------------------------------------------------------------------

    def _fired(self, fields: Fields) -> None:
        self._of_fires(fields["task"]).inc(fields.get("count", 1))

    def _missed(self, fields: Fields) -> None:
        self._of_misses(fields["task"], fields["reason"]).inc(fields.get("count", 1))

    def _received(self, fields: Fields) -> None:
        self._of_received(fields["source"], fields["result"]).inc()
        if (seconds := fields.get("seconds")) is not None:
            self._families.request.observe(max(0.0, seconds))

    def _processed(self, fields: Fields) -> None:
        self._of_processed(fields["source"]).inc(fields.get("count", 1))

    def _recovered(self, fields: Fields) -> None:
        self._of_recovered(fields["source"]).inc(fields.get("count", 1))

    # ---- loops and stores ------------------------------------------------------------------------

    def _turn(self, fields: Fields) -> None:
        self._of_turns(fields["loop"], "done").inc()
        self.gauges.loop_turn(fields["loop"], self._now(), fields["seconds"])

    def _failed(self, fields: Fields) -> None:
        self._of_turns(fields["loop"], "failed").inc()

    def _away(self, fields: Fields) -> None:
        self._of_turns(fields["loop"], "away").inc()
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

    # ---- their children --------------------------------------------------------------------------

    def _children(self) -> None:
        """Made once each, then found by what an event says at the cost of a dict."""
        f, queue, task, source = self._families, self._queues, self._tasks, self._sources
        self._of_dispatched = Children(f.dispatched.labels, queue, task)
        self._of_claimed = Children(f.claimed.labels, queue, task)
        self._of_settled = Children(f.settled.labels, queue, task, Label(OUTCOMES))
        self._of_duration = Children(f.duration.labels, queue, task)
        self._of_wait = Children(f.wait.labels, queue)
        self._of_orphaned = Children(f.orphaned.labels, queue)
        self._of_promoted = Children(f.promoted.labels, queue)
        self._of_requeued = Children(f.requeued.labels, queue)
        self._of_foreign = Children(f.foreign.labels, queue)
        self._of_rowless = Children(f.rowless.labels, queue)
        self._of_notices = Children(f.notices.labels, Label(NOTICES))
        self._of_fires = Children(f.fires.labels, task)
        self._of_misses = Children(f.misses.labels, task, Label(MISSES, room=_REASONS))
        self._of_received = Children(f.received.labels, source, Label(RESULTS))
        self._of_processed = Children(f.processed.labels, source)
        self._of_recovered = Children(f.recovered.labels, source)
        self._of_turns = Children(f.turns.labels, Label(room=LOOPS), Label(TURNS))

    def _from_zero(self) -> None:
        """An alert on a series that does not exist yet would stay silent."""
        for queue in self._queues.values:
            self.know(queue, OTHER)
            for of in (self._of_wait, self._of_orphaned, self._of_promoted, self._of_requeued):
                of(queue)
            self._of_foreign(queue)
            self._of_rowless(queue)
        for result in NOTICES:
            self._of_notices(result)
        for source, result in product(self._sources.values, RESULTS):
            self._of_received(source, result)
            self._of_processed(source)
            self._of_recovered(source)
