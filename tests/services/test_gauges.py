"""The gauges and the status line: how things stand, kept fresh by a loop and by no scrape."""

from __future__ import annotations

from taskengine.app.process import measure
from taskengine.lifecycle.backstage import Engine
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.store_databases import StoreDatabases
from taskengine.runtime.systemd import Notifier
from taskengine.services.gauges import GaugeRefresher
from taskengine.services.status_line import StatusLine
from taskengine.telemetry.events import subscribe
from taskengine.telemetry.metrics import Metrics
from tests.support.make import Hands


def a_crew(parts: Parts) -> Crew:
    identity = Identity(name="here/1", worker_id=1)
    databases = StoreDatabases(parts)
    return Crew(parts, identity, lambda i: Engine(parts, i, databases, identity.name))


def value(metrics: Metrics, line: str) -> str:
    text = metrics.render(None)[0].decode()
    return next(x.rsplit(" ", 1)[1] for x in text.splitlines() if x.startswith(line + " "))


async def test_depths_and_ages_are_of_both_stores(hands: Hands) -> None:
    parts, metrics = hands.parts, measure(hands.parts)
    await hands.sql(
        "insert into task_executions (job, queue, idempotency_key, run_at, state, finished_at)"
        " values ('a', 'low', 'k1', now() - interval '90 s', 'pending', null),"
        " ('a', 'low', 'k2', now(), 'failed', now())"
    )
    await GaugeRefresher(parts, a_crew(parts), 1, metrics.gauges).tick()
    assert value(metrics, 'taskengine_queue_depth{queue="low",state="waiting"}') == "0.0"
    assert value(metrics, 'taskengine_queue_depth{queue="low",state="failed"}') == "1.0"
    oldest = 'taskengine_queue_oldest_age_seconds{queue="low"}'
    assert float(value(metrics, oldest)) >= 90
    assert value(metrics, "taskengine_redis_up") == "1.0"


async def test_one_daemon_shows_what_the_database_knows(hands: Hands) -> None:
    parts = hands.parts
    first, second = measure(parts), measure(parts)
    await GaugeRefresher(parts, a_crew(parts), 1, first.gauges).tick()
    await GaugeRefresher(parts, a_crew(parts), 2, second.gauges).tick()
    failed = 'taskengine_queue_depth{queue="low",state="failed"}'
    assert (value(first, failed), value(second, failed)) == ("0.0", "NaN")


async def test_an_eviction_policy_that_drops_keys_is_told_once_and_shown(hands: Hands) -> None:
    parts, metrics, told = hands.parts, measure(hands.parts), list[str]()
    end = subscribe(lambda event, _: told.append(event), lambda event: event == "broker.evicts")
    refresher = GaugeRefresher(parts, a_crew(parts), 1, metrics.gauges)
    await parts.client.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        for _ in range(62):
            await refresher.tick()
    finally:
        await parts.client.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        end()
    assert told == ["broker.evicts"]
    assert value(metrics, "taskengine_redis_evicts") == "1.0"


async def test_the_status_line_counts_what_runs_and_what_is_left(hands: Hands) -> None:
    crew = a_crew(hands.parts)
    line = StatusLine(hands.parts, crew, Notifier(None))
    assert line.words() == "0 of 20 slots busy"
    crew.identity.draining = True
    assert line.words() == "draining: 0 left"
