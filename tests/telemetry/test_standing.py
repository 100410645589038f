"""Names that nobody listed are labels too, bounded; what is mended goes back to 0."""

from __future__ import annotations

import math

import pytest

from taskengine.telemetry.metrics import Facts, Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(
        version="1",
        queues=["high", "low"],
        sources=["everee"],
        now=lambda: 0.0,
        tasks=[("high", f"job-{n}") for n in range(300)],
    )


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"taskengine_{name}", labels)


def test_all_are_there_from_the_start(metrics: Metrics) -> None:
    for queue in ("high", "low"):
        for name in ("queue_paused", "queue_quarantined", "queue_unpolled"):
            assert value(metrics, name, queue=queue) == 0
    assert value(metrics, "queue_unlisted", queue="other") == 0
    assert value(metrics, "job_unknown", task="other") == 0
    assert value(metrics, "webhooks_stranded", source="everee") == 0
    assert value(metrics, "database_watched") == 0


def test_what_is_mended_is_0_again_and_what_is_not_known_is_not_a_number(metrics: Metrics) -> None:
    standing = metrics.gauges.standing
    standing.show(Facts(unlisted={"gone": 3}, unpolled={"low": 2, "gone": 3}))
    assert value(metrics, "queue_unlisted", queue="gone") == 3
    assert value(metrics, "queue_unpolled", queue="low") == 2
    assert value(metrics, "queue_unpolled", queue="other") == 3, "it is another gauge's"
    assert value(metrics, "database_watched") == 1
    standing.show(Facts())
    assert value(metrics, "queue_unlisted", queue="gone") == 0
    standing.show(None)
    assert math.isnan(value(metrics, "queue_unlisted", queue="gone") or 0)
    assert value(metrics, "database_watched") == 0


def test_names_of_strangers_are_bounded(metrics: Metrics) -> None:
    standing = metrics.gauges.standing
    for start in (0, 100):
        names = {f"name-{n}": 1.0 for n in range(start, start + 100)}
        standing.show(Facts(unlisted=names, unknown_jobs=names, stranded=names, paused=names))
    assert value(metrics, "queue_unlisted", queue="other") == 100
    assert value(metrics, "webhooks_stranded", source="other") == 100
    page = metrics.render(None)[0]
    assert page.count(b'taskengine_queue_unlisted{queue="name-') == 20
    assert page.count(b'taskengine_job_unknown{task="name-') == 20
    assert page.count(b'taskengine_queue_paused{queue="name-') == 0


def test_a_job_that_is_known_at_the_start_is_never_other(metrics: Metrics) -> None:
    of = {"queue": "high", "task": "job-299", "outcome": "quarantined"}
    assert value(metrics, "executions_settled_total", **of) == 0
    metrics.series.know_schedule("job-299")
    assert value(metrics, "scheduler_misses_total", task="job-299", reason="too_late") == 0
