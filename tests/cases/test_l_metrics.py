"""Cases of metrics and logs."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import suppress
from dataclasses import replace

import pytest
from pydantic import SecretStr

from taskengine.app.process import measure
from taskengine.broker.client import Client
from taskengine.broker.queue import Queues
from taskengine.errors import BrokerUnavailable, ServiceFailed
from taskengine.lifecycle.backstage import Engine
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.store_databases import StoreDatabases
from taskengine.runtime.service import Periodic
from taskengine.runtime.supervisor import Limits, Supervisor, Tier
from taskengine.services.gauges import GaugeRefresher
from taskengine.telemetry.events import emit
from taskengine.telemetry.metrics import Metrics
from tests.support.fake_clock import FakeClock
from tests.support.make import Hands, Told, a_job


def page(metrics: Metrics) -> list[str]:
    return metrics.render(None)[0].decode().splitlines()


def test_c107_no_id_and_no_free_text_becomes_a_series(parts: Parts) -> None:
    metrics = measure(parts)

    def run(start: int, count: int) -> None:
        for n in range(start, start + count):
            emit("executions.settled", rows=[("default", f"task-{n}", f"error {n}", 1.0)])
        for n in range(start, start + 500):
            emit("webhook.received", source=f"source {n}", result=f"text {random.random()}")

    run(0, 1000)
    size = len(page(metrics))
    run(1000, 20_000)
    assert len(page(metrics)) == size


def refresher(parts: Parts, hands: Hands, metrics: Metrics) -> GaugeRefresher:
    stores = StoreDatabases(parts)
    crew = Crew(parts, hands.identity, lambda i: Engine(parts, i, stores, "here"))
    return GaugeRefresher(parts, crew, hands.token, metrics.gauges)


async def test_c109_depths_are_of_all_queues_and_come_without_traffic(hands: Hands) -> None:
    await hands.know(a_job())
    for _ in range(100):
        await hands.dispatch()
    metrics = measure(hands.parts)
    await refresher(hands.parts, hands, metrics).tick()
    found = {line for line in page(metrics) if 'state="waiting"' in line}
    depth = {name: line for name in hands.parts.queues.names for line in found if name in line}
    assert len(depth) == 4
    assert depth["default"].endswith(" 100.0")
    assert depth["low"].endswith(" 0.0")


async def test_c109_while_redis_is_away_the_page_is_there_and_says_so(hands: Hands) -> None:
    settings = hands.parts.config.redis.model_copy(
        update={"url": SecretStr("redis://127.0.0.1:1/0"), "timeout": 0.2}
    )
    client = Client(settings, hands.parts.clock)
    names = hands.parts.config.engine.queues
    away = replace(hands.parts, client=client, queues=Queues(client, hands.parts.keys, names))
    metrics = measure(away)
    before = {line.rsplit(" ", 1)[0] for line in page(metrics) if "queue_depth" in line}
    loop = refresher(away, hands, metrics)
    with suppress(BrokerUnavailable):
        await loop.tick()
    after = {line.rsplit(" ", 1)[0] for line in page(metrics) if "queue_depth" in line}
    assert before == after, "the label set is stable"
    await client.close()


async def test_c110_a_loop_that_fails_again_and_again_ends_the_process_and_is_counted(
    told: Told,
) -> None:
    clock = FakeClock()
    waits: list[float] = []

    class Broken(Periodic):
        name = "broken"

        async def tick(self) -> bool:
            waits.append(clock.monotonic())
            raise ValueError("each time")

    supervisor = Supervisor((Tier("breaks", (Broken(clock, 5.0),)),), clock, Limits(drain=1.0))
    running = asyncio.create_task(supervisor.run(asyncio.Event()))
    while not running.done():
        await clock.advance(1.0)
    with pytest.raises(ServiceFailed):
        running.result()
    failed = told.of("loop.failed")
    assert 2 <= len(failed) <= 10, "after a few, and each of them told"
    gaps = [later - earlier for earlier, later in itertools.pairwise(waits)]
    assert gaps == sorted(gaps) or max(gaps) > gaps[0], "it backs off"
