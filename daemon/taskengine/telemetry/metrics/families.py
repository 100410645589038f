"""The counters and histograms, in the words of the specification."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

# `_created` series would double every counter and histogram; nobody asks for them.
disable_created_metrics()  # type: ignore[no-untyped-call]

OUTCOMES: Final = (
    "succeeded",
    "retried",
    "failed",
    "discarded",
    "timed_out",
    "quarantined",
    "snoozed",
    "released",
    "interrupted",
    "orphaned",
    "cancelled",
    "unclaimable",
)
RESULTS: Final = (
    "accepted",
    "duplicate",
    "ignored",
    "invalid",
    "undispatched",
    "missing_signature",
    "malformed_signature",
    "bad_signature",
    "stale",
    "future",
    "too_large",
    "malformed",
    "slow",
    "unavailable",
    "unknown_source",
)

NOTICES: Final = ("sent", "failed")
MISSES: Final = ("skipped", "superseded", "too_late", "bad_zone")
TURNS: Final = ("done", "away", "failed")

Buckets = tuple[float, ...]

_DURATIONS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800)
_WAITS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
_REQUESTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Families:
    """Everything that counts, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._of_executions()
        self._of_schedules_and_webhooks()
        self._of_loops_and_stores()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"taskengine_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Buckets, *labels: str) -> Histogram:
        return Histogram(
            f"taskengine_{name}_seconds", text, labels, buckets=buckets, registry=self._registry
        )

    def _of_executions(self) -> None:
        of = ("queue", "task")
        self.dispatched = self._counter("executions_dispatched", "Executions made here.", *of)
        self.claimed = self._counter("executions_claimed", "Executions claimed here.", *of)
        self.settled = self._counter(
            "executions_settled", "Executions settled here.", *of, "outcome"
        )
        self.orphaned = self._counter(
            "executions_orphaned", "Executions taken from dead or late workers.", "queue"
        )
        self.promoted = self._counter("executions_promoted", "Delayed executions now due.", "queue")
        self.requeued = self._counter(
            "executions_requeued", "Reserved, never claimed, and back in the queue.", "queue"
        )
        self.foreign = self._counter(
            "queue_foreign_dropped", "Messages that were no ids of executions, dropped.", "queue"
        )
        self.rowless = self._counter(
            "queue_rowless_dropped", "Messages whose executions do not exist, dropped.", "queue"
        )
        self.notices = self._counter(
            "notices", "Failures told by a notice, and tries to tell them that failed.", "result"
        )
        self.undelivered = self._counter(
            "executions_undelivered", "Committed while Redis was away: the sweep delivers."
        )
        self.duration = self._histogram(
            "execution_duration", "How long a body ran.", _DURATIONS, *of
        )
        self.wait = self._histogram("execution_wait", "From run_at to the claim.", _WAITS, "queue")

    def _of_schedules_and_webhooks(self) -> None:
        self.fires = self._counter("scheduler_fires", "Fire times that became executions.", "task")
        self.misses = self._counter(
            "scheduler_misses", "Fire times that were passed over.", "task", "reason"
        )
        self.received = self._counter(
            "webhooks_received", "Webhook requests by how they were answered.", "source", "result"
        )
        self.processed = self._counter(
            "webhooks_processed", "Events marked processed here.", "source"
        )
        self.recovered = self._counter(
            "webhooks_recovered", "Stranded events found again.", "source"
        )
        self.request = self._histogram(
            "webhook_request_duration", "How long a webhook request took.", _REQUESTS
        )

    def _of_loops_and_stores(self) -> None:
        self.turns = self._counter(
            "loop_turns", "Turns of a loop by how they ended (away: a store was).", "loop", "result"
        )
        self.redis_losses = self._counter("redis_losses", "How often Redis went away.")
