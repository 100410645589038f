"""What is counted, from zero, within bounds, in the format that was asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from taskengine.telemetry.events import emit
from taskengine.telemetry.metrics import Metrics

QUEUES = ("payroll", "high", "default", "low")


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    metrics = Metrics(
        version="1.2.3",
        queues=QUEUES,
        sources=["everee"],
        now=lambda: 1798761600.0,
        tasks=[("payroll", "paystub")],
    )
    end = metrics.subscribe()
    yield metrics
    end()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"taskengine_{name}", labels)


def lines(metrics: Metrics) -> int:
    return metrics.render(None)[0].count(b"\n")


# ---- from zero -----------------------------------------------------------------------------------


def test_known_series_are_there_before_anything_happens(metrics: Metrics) -> None:
    assert value(metrics, "executions_dispatched_total", queue="payroll", task="paystub") == 0
    assert value(
        metrics, "executions_settled_total", queue="payroll", task="paystub", outcome="failed"
    ) == 0  # fmt: skip
    for queue in QUEUES:
        assert value(metrics, "executions_orphaned_total", queue=queue) == 0
        assert value(metrics, "execution_wait_seconds_count", queue=queue) == 0
        for state in ("waiting", "delayed", "running", "failed"):
            assert value(metrics, "queue_depth", queue=queue, state=state) == 0
    assert value(metrics, "webhooks_received_total", source="everee", result="bad_signature") == 0
    assert value(metrics, "webhooks_unprocessed", source="everee") == 0
    assert value(metrics, "build_info", version="1.2.3") == 1


def test_the_process_is_there_too(metrics: Metrics) -> None:
    for name in ("start_time_seconds", "resident_memory_bytes", "open_fds", "cpu_seconds_total"):
        assert (metrics.registry.get_sample_value(f"process_{name}") or 0) > 0


def test_two_apps_do_not_share_a_registry(metrics: Metrics) -> None:
    other = Metrics(version="1", queues=QUEUES, sources=[], now=lambda: 0.0)
    emit("executions.dispatched", rows=[("payroll", "paystub", 1)])
    assert value(metrics, "executions_dispatched_total", queue="payroll", task="paystub") == 1
    assert value(other, "executions_dispatched_total", queue="payroll", task="other") == 0


# ---- what counts where ---------------------------------------------------------------------------


def test_executions_are_counted_on_their_way(metrics: Metrics) -> None:
    of = {"queue": "payroll", "task": "paystub"}
    emit("executions.dispatched", rows=[("payroll", "paystub", 1), ("payroll", "paystub", 2)])
    emit("executions.claimed", rows=[("payroll", "paystub", 0.2), ("payroll", "paystub", -0.1)])
    emit(
        "executions.settled",
        rows=[
            ("payroll", "paystub", "succeeded", 0.7, 4711),
            ("payroll", "paystub", "succeeded", 0.2, 4712),
            ("payroll", "paystub", "retried", 2.0, 4713),
            ("payroll", "paystub", "orphaned", None, 4714),
        ],
    )
    emit("execution.orphaned", state="pending", reason="worker_died", **of)
    assert value(metrics, "executions_dispatched_total", **of) == 2
    assert value(metrics, "executions_claimed_total", **of) == 2
    assert value(metrics, "executions_settled_total", outcome="succeeded", **of) == 2
    assert value(metrics, "executions_settled_total", outcome="retried", **of) == 1
    assert value(metrics, "executions_settled_total", outcome="orphaned", **of) == 1
    assert value(metrics, "execution_duration_seconds_count", **of) == 3
    assert value(metrics, "execution_duration_seconds_sum", **of) == pytest.approx(2.9)
    assert value(metrics, "execution_duration_seconds_bucket", le="1.0", **of) == 2
    assert value(metrics, "execution_wait_seconds_count", queue="payroll") == 2
    assert value(metrics, "execution_wait_seconds_sum", queue="payroll") == pytest.approx(0.2)
    assert value(metrics, "executions_orphaned_total", queue="payroll") == 1


def test_batches_count_as_many_as_they_are(metrics: Metrics) -> None:
    emit("execution.undelivered", count=3)
    emit("queue.promoted", queue="low", count=4)
    emit("queue.requeued", queue="low", count=5)
    emit("queue.foreign_dropped", queue="low", count=2)
    emit("queue.rowless_dropped", queue="low", count=8)
    emit("notices.sent", task="paystub", count=9)
    emit("notices.failed", task="paystub", count=1, error=None)
    emit("schedule.fired", task="paystub", count=6)
    emit("schedule.missed", task="paystub", reason="grace", count=7)
    assert value(metrics, "executions_undelivered_total") == 3
    assert value(metrics, "executions_promoted_total", queue="low") == 4
    assert value(metrics, "executions_requeued_total", queue="low") == 5
    assert value(metrics, "queue_foreign_dropped_total", queue="low") == 2
    assert value(metrics, "queue_rowless_dropped_total", queue="low") == 8
    assert value(metrics, "notices_total", result="sent") == 9
    assert value(metrics, "notices_total", result="failed") == 1
    assert value(metrics, "scheduler_fires_total", task="paystub") == 6
    assert value(metrics, "scheduler_misses_total", task="paystub", reason="grace") == 7


def test_webhooks_are_counted_by_how_they_were_answered(metrics: Metrics) -> None:
    emit("webhook.received", source="everee", result="accepted", seconds=0.02)
    emit("webhook.received", source="everee", result="stale", seconds=0.001)
    emit("webhook.processed", source="everee")
    emit("webhook.recovered", source="everee", count=2)
    assert value(metrics, "webhooks_received_total", source="everee", result="accepted") == 1
    assert value(metrics, "webhooks_received_total", source="everee", result="stale") == 1
    assert value(metrics, "webhook_request_duration_seconds_count") == 2
    assert value(metrics, "webhooks_processed_total", source="everee") == 1
    assert value(metrics, "webhooks_recovered_total", source="everee") == 2


def test_loops_show_their_last_turn(metrics: Metrics) -> None:
    emit("loop.turn", loop="promoter", seconds=0.25, findings={})
    emit("loop.away", loop="promoter", seconds=0.1, error=None)
    emit("loop.failed", loop="promoter", error=None, failures=1)
    for result in ("done", "away", "failed"):
        assert value(metrics, "loop_turns_total", loop="promoter", result=result) == 1
    assert value(metrics, "loop_last_turn_timestamp_seconds", loop="promoter") == 1798761600
    assert value(metrics, "loop_last_turn_seconds", loop="promoter") == 0.1


def test_redis_going_away_is_seen_at_once(metrics: Metrics) -> None:
    emit("broker.away", error=None)
    emit("broker.direct")
    assert (value(metrics, "redis_up"), value(metrics, "direct_mode")) == (0, 1)
    emit("broker.back")
    emit("broker.direct_left")
    assert (value(metrics, "redis_up"), value(metrics, "direct_mode")) == (1, 0)
    assert value(metrics, "redis_losses_total") == 1


# ---- how things stand ----------------------------------------------------------------------------


def test_gauges_are_set_by_whoever_looks(metrics: Metrics) -> None:
    gauges = metrics.gauges
    gauges.queue_depth("low", "waiting", 14)
    gauges.queue_oldest_age("low", 4.5)
    gauges.queue_depth("unlisted", "waiting", 1)
    gauges.slots(busy=3, free=17)
    gauges.zombies(1)
    gauges.lost_threads(2)
    gauges.pool(5, 3, 10)
    gauges.postgres_up(True)
    gauges.redis_evicts(True)
    gauges.draining(True)
    gauges.log_dropped(5)
    gauges.log_dropped(7)
    assert value(metrics, "queue_depth", queue="low", state="waiting") == 14
    assert value(metrics, "queue_depth", queue="unlisted", state="waiting") is None
    assert value(metrics, "queue_oldest_age_seconds", queue="low") == 4.5
    assert value(metrics, "slots", state="busy") == 3
    assert value(metrics, "slots", state="free") == 17
    assert (value(metrics, "zombies"), value(metrics, "lost_threads")) == (1, 2)
    assert value(metrics, "pool_connections", state="busy") == 2
    assert value(metrics, "pool_connections_max") == 10
    assert value(metrics, "postgres_up") == value(metrics, "redis_evicts") == 1
    assert value(metrics, "draining") == 1
    assert value(metrics, "log_records_dropped_total") == 7


def test_lost_log_lines_are_in_every_scrape() -> None:
    lost = [3]
    metrics = Metrics(version="1", queues=[], sources=[], now=lambda: 0.0, dropped=lambda: lost[0])
    assert b"taskengine_log_records_dropped_total 3.0" in metrics.render(None)[0]
    lost[0] = 5
    assert b"taskengine_log_records_dropped_total 5.0" in metrics.render(None)[0]


def test_what_cannot_be_known_is_not_a_number(metrics: Metrics) -> None:
    metrics.gauges.queue_depth("low", "waiting", 9)
    metrics.gauges.queue_depth("low", "waiting", None)
    metrics.gauges.webhooks(None)
    assert math.isnan(value(metrics, "queue_depth", queue="low", state="waiting") or 0)
    assert math.isnan(value(metrics, "webhooks_unprocessed", source="everee") or 0)


def test_unprocessed_events_of_sources_that_are_gone_count_as_other(metrics: Metrics) -> None:
    metrics.gauges.webhooks({"everee": (2, 30.0), "gone": (1, 99.0), "gone-too": (4, 5.0)})
    assert value(metrics, "webhooks_unprocessed", source="everee") == 2
    assert value(metrics, "webhooks_unprocessed", source="other") == 5
    assert value(metrics, "webhooks_oldest_age_seconds", source="other") == 99
    metrics.gauges.webhooks({})
    assert value(metrics, "webhooks_unprocessed", source="everee") == 0


# ---- within bounds -------------------------------------------------------------------------------


def test_the_page_stays_the_same_size_whatever_the_labels(metrics: Metrics) -> None:
    def storm(start: int) -> None:
        for n in range(start, start + 1000):
            emit("executions.dispatched", rows=[(f"queue-{n}", f"task-{n}", n)])
            emit("executions.settled", rows=[(f"q{n}", f"task-{n}", f"error {n}", 1.0, n)])
            emit("webhook.received", source=f"source-{n}", result=f"text {n}")
            emit("schedule.missed", task=f"task-{n}", reason=f"reason {n}", count=1)
            emit("loop.turn", loop=f"loop-{n}", seconds=1, findings={})

    storm(0)
    after_first = lines(metrics)
    storm(1000)
    assert lines(metrics) == after_first
    assert value(metrics, "webhooks_received_total", source="other", result="other") == 2000


def test_no_series_uses_the_scrapes_own_labels(metrics: Metrics) -> None:
    text = metrics.render(None)[0]
    assert b'job="' not in text
    assert b'instance="' not in text
    assert b"_created" not in text


# ---- the formats ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "kind", "end"),
    [
        (None, "text/plain; version=0.0.4", b"\n"),
        ("text/plain;version=1.0.0", "text/plain; version=1.0.0", b"\n"),
        ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text", b"# EOF\n"),
        ("application/openmetrics-text", "application/openmetrics-text", b"# EOF\n"),
        ("application/openmetrics-text;version=x.y", "text/plain", b"\n"),
        ("text/plain;version=\xff;;=", "text/plain", b"\n"),
        ("*/*", "text/plain; version=0.0.4", b"\n"),
        (",;,=;" * 500, "text/plain; version=0.0.4", b"\n"),
    ],
)
def test_the_scraper_chooses_the_format(
    metrics: Metrics, accept: str | None, kind: str, end: bytes
) -> None:
    body, said = metrics.render(accept)
    assert said.startswith(kind)
    assert body.endswith(end)
    assert b"taskengine_executions_claimed_total" in body
