"""Cases of metrics and logs."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from taskengine.broker.client import Client
from taskengine.broker.queue import Queues
from taskengine.config import Config
from taskengine.errors import BrokerUnavailable, ServiceFailed
from taskengine.lifecycle.backstage import Engine
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.store_databases import StoreDatabases
from taskengine.runtime.service import Periodic
from taskengine.runtime.supervisor import Limits, Supervisor, Tier, exit_status
from taskengine.services.gauges import GaugeRefresher
from taskengine.telemetry.events import emit
from taskengine.telemetry.metrics import Metrics
from tests.support.fake_clock import FakeClock
from tests.support.make import Hands, Told, a_job, settled_by
from tests.support.webhooks import event, register, serving, with_sources


def page(metrics: Metrics) -> list[str]:
    return metrics.render(None)[0].decode().splitlines()


@pytest.fixture
def metrics(config: Config) -> Iterator[Metrics]:
    metrics = Metrics(
        version="1", queues=config.engine.queues, sources=["everee"], now=lambda: 1798761600.0
    )
    end = metrics.subscribe()
    yield metrics
    end()


def test_c107_no_id_and_no_free_text_becomes_a_series(metrics: Metrics) -> None:

    def run(start: int, count: int) -> None:
        for n in range(start, start + count):
            emit("executions.settled", rows=[("default", f"task-{n}", f"error {n}", 1.0, n)])
        for n in range(start, start + 500):
            emit("webhook.received", source=f"source {n}", result=f"text {random.random()}")

    run(0, 1000)
    size = len(page(metrics))
    run(1000, 20_000)
    assert len(page(metrics)) == size


async def test_c107_not_even_where_it_all_comes_from_outside(parts: Parts, config: Config) -> None:
    """Real executions that fail with random text, real requests of random types and sources."""

    async def body(ctx: Any) -> None:
        raise ValueError(str(random.random()))

    through = replace(parts, config=with_sources(config))
    hands = await Hands(through).join()
    await hands.know(a_job(body=body, max_attempts=1, notify_on_failure=False))
    await register(through, is_enabled=False)
    async with serving(through) as site, hands.working():

        async def size(start: int, count: int) -> int:
            for n in range(start, start + count):
                await hands.dispatch(key=f"key {n}")
                await site.post(event(f"e{n}", f"type.{random.random()}"))
                await site.post(event(), source=f"source-{n}")
            await settled_by(hands, "work")
            return len((await site.http.get("/metrics")).text.splitlines())

        assert await size(0, 5) == await size(5, 100)
    hands.die()


def refresher(parts: Parts, hands: Hands, metrics: Metrics) -> GaugeRefresher:
    stores = StoreDatabases(parts)
    crew = Crew(parts, hands.identity, lambda i: Engine(parts, i, stores, "here"))
    return GaugeRefresher(parts, crew, hands.token, metrics.gauges)


async def test_c109_depths_are_of_all_queues_and_come_without_traffic(
    hands: Hands, metrics: Metrics
) -> None:
    await hands.know(a_job())
    for _ in range(100):
        await hands.dispatch()
    await refresher(hands.parts, hands, metrics).tick()
    found = {line for line in page(metrics) if 'state="waiting"' in line}
    depth = {name: line for name in hands.parts.queues.names for line in found if name in line}
    assert len(depth) == 4
    assert depth["default"].endswith(" 100.0")
    assert depth["low"].endswith(" 0.0")


async def test_c109_while_redis_is_away_the_page_is_there_and_says_so(
    hands: Hands, metrics: Metrics
) -> None:
    settings = hands.parts.config.redis.model_copy(
        update={"url": SecretStr("redis://127.0.0.1:1/0"), "timeout": 0.2}
    )
    client = Client(settings, hands.parts.clock)
    names = hands.parts.config.engine.queues
    away = replace(hands.parts, client=client, queues=Queues(client, hands.parts.keys, names))
    before, loop = depths(metrics), refresher(away, hands, metrics)
    with suppress(BrokerUnavailable):
        await loop.tick()
    after = depths(metrics)
    assert set(before) == set(after), "the label set is stable"
    of_redis = [value for name, value in after.items() if "waiting" in name or "delayed" in name]
    assert of_redis == ["NaN"] * 8
    assert "taskengine_redis_up 0.0" in page(metrics)
    assert "taskengine_redis_losses_total 1.0" in page(metrics)
    await client.close()


def depths(metrics: Metrics) -> dict[str, str]:
    """Series → value."""
    name = "taskengine_queue_depth"
    return dict(line.rsplit(" ", 1) for line in page(metrics) if line.startswith(name))


async def test_c110_a_loop_that_fails_again_and_again_ends_the_process_and_is_counted(
    told: Told, metrics: Metrics
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
    with pytest.raises(ServiceFailed) as failed:
        running.result()
    assert exit_status(failed.value) == 1
    assert len(told.of("loop.failed")) == len(waits) == Broken.max_failures
    turns = 'taskengine_loop_turns_total{loop="broken",result="failed"}'
    assert f"{turns} {len(waits)}.0" in page(metrics)
    gaps = [later - earlier for earlier, later in itertools.pairwise(waits)]
    assert gaps == sorted(gaps), "it backs off"
    assert gaps[-1] > gaps[0]
