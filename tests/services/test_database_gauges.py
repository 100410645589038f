"""What only the database knows and somebody should look at: planted, shown, mended, forgotten."""

from __future__ import annotations

import math

import pytest

from taskengine.app.process import measure
from taskengine.lifecycle.parts import Parts
from taskengine.services.database_gauges import DatabaseGauges
from taskengine.services.gauges import GaugeRefresher
from taskengine.store import queues, webhooks
from taskengine.store.webhooks import NewEvent
from taskengine.telemetry.metrics import Metrics
from tests.services.test_gauges import a_crew
from tests.support.make import FAILED, Hands, a_job


@pytest.fixture
def metrics(hands: Hands) -> Metrics:
    return measure(hands.parts)


async def shown(parts: Parts, metrics: Metrics, line: str) -> float | None:
    """What a fresh look at the database shows."""
    await DatabaseGauges(parts, metrics.gauges).refresh()
    name, _, labels = line.partition("{")
    pairs = [each.split("=") for each in labels.rstrip("}").split(",")] if labels else []
    return metrics.registry.get_sample_value(
        f"taskengine_{name}", {key: value.strip('"') for key, value in pairs}
    )


async def test_rows_in_an_unlisted_queue_by_its_name(hands: Hands, metrics: Metrics) -> None:
    await hands.know(a_job("a", queue="low"))
    sent = await hands.dispatch("a")
    await hands.change(sent.execution_id, queue="gone")
    line = 'queue_unlisted{queue="gone"}'
    assert await shown(hands.parts, metrics, line) == 1
    await hands.change(sent.execution_id, queue="low")
    assert await shown(hands.parts, metrics, line) == 0


async def test_pushed_but_not_polled(hands: Hands, metrics: Metrics) -> None:
    await hands.know(a_job("a", queue="low"))
    await hands.dispatch("a")
    line = 'queue_unpolled{queue="low"}'
    await hands.sql("update task_workers set queues = '{low}', last_beat_at = now()")
    assert await shown(hands.parts, metrics, line) == 0
    await hands.sql("update task_workers set queues = '{high}'")
    assert await shown(hands.parts, metrics, line) == 1


async def test_a_job_that_nobody_knows(hands: Hands, metrics: Metrics) -> None:
    await hands.know(a_job("a", queue="low"))
    await hands.dispatch("a")
    line = 'job_unknown{task="a"}'
    await hands.sql("update task_workers set jobs = '{}', last_beat_at = now()")
    assert await shown(hands.parts, metrics, line) == 1
    await hands.sql("update task_workers set jobs = '{a}'")
    assert await shown(hands.parts, metrics, line) == 0


async def test_a_paused_queue(hands: Hands, metrics: Metrics) -> None:
    line = 'queue_paused{queue="low"}'
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "low", "anna", None)
    assert await shown(hands.parts, metrics, line) == 1
    async with hands.parts.store.connection() as c:
        await queues.resume(c, "low")
    assert await shown(hands.parts, metrics, line) == 0


async def test_quarantined_ones_of_the_last_day(hands: Hands, metrics: Metrics) -> None:
    await hands.know(a_job("a", queue="low", max_attempts=1))
    sent = await hands.running("a")
    await hands.settle(sent, FAILED)
    line = 'queue_quarantined{queue="low"}'
    assert await shown(hands.parts, metrics, line) == 0, "its own attempt failed: that is known"
    await hands.sql(
        "insert into task_attempts (execution_id, attempt, fence, move, reason, by)"
        " values ($1, 1, 1, 'orphaned', 'worker_died', 'a test')",
        sent.id,
    )
    assert await shown(hands.parts, metrics, line) == 1
    await hands.change(sent.id, finished_at="sql:now() - interval '25 h'")
    assert await shown(hands.parts, metrics, line) == 0


async def test_stranded_events(hands: Hands, metrics: Metrics) -> None:
    event = NewEvent("everee", "e1", None, "received", b"{}", b"x", "{}", None, None)
    async with hands.parts.store.connection() as c:
        await webhooks.insert(c, event)
    line = 'webhooks_stranded{source="other"}'  # this configuration has no source
    assert await shown(hands.parts, metrics, line) == 0
    await hands.sql("update webhook_events set received_at = now() - interval '1 h'")
    assert await shown(hands.parts, metrics, line) == 1


async def test_only_the_holder_of_the_lease_shows_them(hands: Hands) -> None:
    parts = hands.parts
    first, second = measure(parts), measure(parts)
    leads = GaugeRefresher(parts, a_crew(parts), 1, first.gauges)
    await leads.tick()
    await GaugeRefresher(parts, a_crew(parts), 2, second.gauges).tick()

    def told(metrics: Metrics) -> tuple[float, float]:
        get = metrics.registry.get_sample_value
        watched = get("taskengine_database_watched")
        paused = get("taskengine_queue_paused", {"queue": "low"})
        assert watched is not None
        assert paused is not None
        return watched, paused

    assert told(first) == (1, 0)
    assert told(second)[0] == 0
    assert math.isnan(told(second)[1])


async def test_the_clock_of_this_host_beside_the_databases(hands: Hands) -> None:
    parts, metrics, crew = hands.parts, measure(hands.parts), a_crew(hands.parts)
    refresher = GaugeRefresher(parts, crew, 1, metrics.gauges)
    get = metrics.registry.get_sample_value
    await refresher.tick()
    assert get("taskengine_clock_ahead_seconds") == 0, "nothing is known before the first beat"
    now, monotonic = parts.clock.now().timestamp(), parts.clock.monotonic()
    crew.identity.offset, crew.identity.last_beat = now - monotonic - 600.0, monotonic
    await refresher.tick()
    assert get("taskengine_clock_ahead_seconds") == pytest.approx(600.0, abs=1.0)
