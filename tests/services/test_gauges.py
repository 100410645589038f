"""The gauges and the status line: how things stand, kept fresh by a loop and by no scrape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskengine.app.process import measure
from taskengine.insight import divergence
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
from tests.support.make import SUCCEEDED, Hands, a_job


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


async def test_with_redis_switched_off_all_of_them_are_of_postgres(hands: Hands) -> None:
    redis = hands.parts.config.redis.model_copy(update={"enabled": False})
    parts = replace(hands.parts, config=hands.parts.config.model_copy(update={"redis": redis}))
    await hands.know(a_job("a", queue="low"))
    await hands.insert("a", "now")
    await hands.insert("a", "later", delay=60.0)
    leads, follows = measure(parts), measure(parts)
    await GaugeRefresher(parts, a_crew(parts), 1, leads.gauges).tick()
    await GaugeRefresher(parts, a_crew(parts), 2, follows.gauges).tick()
    for state in ("waiting", "delayed"):
        depth = f'taskengine_queue_depth{{queue="low",state="{state}"}}'
        assert (value(leads, depth), value(follows, depth)) == ("1.0", "NaN")
    assert value(leads, "taskengine_redis_up") == "NaN"
    assert StatusLine(parts, a_crew(parts), Notifier(None)).words() == (
        "0 of 20 slots busy; direct mode"
    )


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
    assert line.words() == "drained: nothing runs"


async def test_the_status_line_says_how_long_and_how_many(hands: Hands) -> None:
    line = StatusLine(hands.parts, hands.crew, Notifier(None))
    await line.tick()
    await hands.know(a_job("work"))
    inflight = hands.crew.inflight
    done, left = [hands.flight(await hands.running(key=key)) for key in ("done", "left")]
    left.started_at -= 100
    inflight.add(left)
    inflight.add(done)
    async with hands.settling():
        inflight.free(done)
        hands.crew.settler.put(done, SUCCEEDED)
    assert line.words() == (
        "1 of 20 slots busy, the longest for 1 min 40 s; 1 settled in the last minute"
    )
    hands.crew.quiet()
    assert line.words().startswith("draining: 1 left, the longest for 1 min 40 s; ")


async def test_the_status_line_says_what_does_not_answer(hands: Hands) -> None:
    line = StatusLine(hands.parts, hands.crew, Notifier(None))
    await hands.beat()
    hands.parts.client.away_since = hands.parts.clock.monotonic()
    assert line.words() == "0 of 20 slots busy; Redis is away"
    assert line.stores() == {"postgres": "up", "redis": "away"}
    assert hands.identity.last_beat is not None
    hands.identity.last_beat -= 100
    hands.parts.client.away_since = None
    assert line.words() == "0 of 20 slots busy; no word from Postgres for 1 min 40 s"
    assert line.stores() == {"postgres": "away", "redis": "up"}


def _divergence(metrics: Metrics) -> dict[str, str]:
    return {
        name: value(metrics, f'taskengine_divergence{{class="{name}"}}')
        for name in (
            "pending_without_message",
            "message_without_row",
            "processing_without_owner",
            "delayed_past_due",
        )
    }


async def test_divergence_is_zero_from_the_start_and_counted_by_class(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divergence, "WAIT", 0.05)
    parts, metrics = hands.parts, measure(hands.parts)
    assert set(_divergence(metrics).values()) == {"0.0"}
    await hands.know(a_job())
    lost = await hands.insert()
    await hands.change(lost.id, created_at="sql:now() - interval '1 min'")
    await hands.redis("ZADD", parts.keys.queue("low"), 1, 999_998, 2, 999_999)
    await hands.redis("ZADD", parts.keys.processing("low"), 1, 999_997)
    refresher = GaugeRefresher(parts, a_crew(parts), 1, metrics.gauges)
    await refresher.tick()
    assert list(_divergence(metrics).values()) == ["1.0", "2.0", "1.0", "0.0"]


async def test_divergence_is_shown_by_one_daemon_and_unknown_where_redis_is_away(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = hands.parts
    first, second = measure(parts), measure(parts)
    leader = GaugeRefresher(parts, a_crew(parts), 1, first.gauges)
    await leader.tick()
    await GaugeRefresher(parts, a_crew(parts), 2, second.gauges).tick()
    assert set(_divergence(first).values()) == {"0.0"}
    assert set(_divergence(second).values()) == {"NaN"}
    leader._compared_at = None
    with monkeypatch.context() as away:
        away.setattr(parts.client, "_open_until", float("inf"))
        await leader.tick()
    assert set(_divergence(first).values()) == {"NaN"}
