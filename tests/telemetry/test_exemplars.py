"""Which execution fell into a bucket: in OpenMetrics alone, one for a batch and task."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from taskengine.telemetry.events import emit
from taskengine.telemetry.metrics import Metrics

OPEN = "application/openmetrics-text;version=1.0.0"
_EXEMPLAR = re.compile(r'_bucket\{.*task="(\w+)".*\} \S+ # \{execution_id="(\d+)"\} (\S+)')


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    metrics = Metrics(version="1", queues=["high"], sources=[], now=lambda: 1798761600.0)
    end = metrics.subscribe()
    yield metrics
    end()


def exemplars(metrics: Metrics) -> list[tuple[str, ...]]:
    """(task, execution id, seconds)."""
    return _EXEMPLAR.findall(metrics.render(OPEN)[0].decode())


def test_the_slowest_of_a_batch_is_named(metrics: Metrics) -> None:
    emit(
        "executions.settled",
        rows=[
            ("high", "a", "succeeded", 0.2, 1),
            ("high", "a", "succeeded", 7.0, 2),
            ("high", "a", "failed", 0.3, 3),
            ("high", "b", "succeeded", 0.3, 4),
            ("high", "a", "orphaned", None, 5),
        ],
    )
    assert exemplars(metrics) == [("a", "2", "7.0"), ("b", "4", "0.3")]


def test_each_bucket_keeps_its_last_one(metrics: Metrics) -> None:
    for number, seconds in ((1, 0.2), (2, 0.3), (3, 7.0)):
        emit("executions.settled", rows=[("high", "a", "succeeded", seconds, number)])
    assert exemplars(metrics) == [("a", "2", "0.3"), ("a", "3", "7.0")]


def test_the_plain_format_knows_none(metrics: Metrics) -> None:
    emit("executions.settled", rows=[("high", "a", "succeeded", 0.2, 4711)])
    body = metrics.render("text/plain;version=0.0.4")[0]
    assert b"taskengine_execution_duration_seconds_bucket" in body
    assert b"4711" not in body
