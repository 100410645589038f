"""When the scheduler looks, and that the lock only spares work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import SecretStr

from taskengine.broker.client import Client
from taskengine.broker.lock import Lock
from taskengine.broker.queue import Queues
from taskengine.lifecycle.parts import Parts
from taskengine.services import scheduler as service
from taskengine.store import misses
from tests.support.scheduling import NOON, World, at, scheduled


@pytest.fixture
def world(parts: Parts) -> Iterator[World]:
    world = World(parts)
    yield world
    world.close()


def _queues(parts: Parts, client: Client) -> Queues:
    return Queues(client, parts.keys, parts.queues.names)


async def misses_of_all(world: World) -> int:
    async with world.parts.store.connection() as c:
        return sum((await misses.counts(c, NOON)).values())


async def test_while_another_holds_the_lock_a_definition_waits_five_seconds_and_no_more(
    world: World,
) -> None:
    await world.add(scheduled("totals"))
    other = Lock(world.parts.client, world.parts.keys.scheduler_lock, "other", 60)
    assert await other.hold()
    scheduler = world.scheduler()
    await world.turn(at(12, 1, 1), scheduler)
    assert await world.keys() == []
    assert scheduler.pause() <= 1.01
    await world.turn(at(12, 1, 5), scheduler)
    assert len(await world.keys()) == 1


async def test_with_redis_away_schedules_fire_all_the_same(world: World) -> None:
    await world.add(scheduled("totals"))
    away = world.parts.config.redis.model_copy(update={"url": SecretStr("redis://127.0.0.1:1/0")})
    client = Client(away, world.clock)
    parts = replace(world.parts, client=client, queues=_queues(world.parts, client))
    scheduler = world.scheduler(parts)
    await world.turn(at(12, 1, 1), scheduler)
    await world.turn(at(12, 1, 5), scheduler)
    await client.close()
    assert len(await world.keys()) == 1
    assert len(world.told("execution.undelivered")) == 1


async def test_with_redis_switched_off_nobody_waits_for_a_lock_that_nobody_holds(
    world: World,
) -> None:
    await world.add(scheduled("totals"))
    redis = world.parts.config.redis.model_copy(update={"enabled": False})
    off = world.parts.config.model_copy(update={"redis": redis})
    parts = replace(world.parts, config=off)
    await world.turn(at(12, 1, 1), world.scheduler(parts))
    await world.turn(at(12, 1, 1), world.scheduler(parts))
    assert len(await world.keys()) == 1
    assert world.told("execution.undelivered") == []


async def test_the_lock_is_free_again_after_the_turn(world: World) -> None:
    await world.add(scheduled("totals"))
    await world.turn(at(12, 1))
    other = Lock(world.parts.client, world.parts.keys.scheduler_lock, "other", 60)
    assert await other.hold()


async def test_the_next_turn_begins_with_the_next_minute_of_the_databases_clock(
    world: World,
) -> None:
    await world.add(scheduled("totals"))
    scheduler = world.scheduler()
    await world.turn(at(12, 1, 17), scheduler)
    assert scheduler.pause() == pytest.approx(43, abs=0.01)
    await world.clock.advance(42.5)
    assert scheduler.pause() == pytest.approx(0.5, abs=0.01)
    await world.clock.advance(0.5)
    assert scheduler.pause() == pytest.approx(60, abs=0.01)


async def test_with_a_seconds_schedule_the_next_turn_begins_with_the_next_second(
    world: World,
) -> None:
    await world.add(scheduled("fast", "*/2 * * * * *", schedule_seconds=True))
    scheduler = world.scheduler()
    await world.turn(NOON + timedelta(seconds=4, milliseconds=300), scheduler)
    assert scheduler.pause() == pytest.approx(0.7, abs=0.01)
    assert await world.keys() == ["fast:2026-11-02T12:00:02Z", "fast:2026-11-02T12:00:04Z"]


async def test_without_a_made_up_time_the_databases_clock_counts(world: World) -> None:
    await world.add(scheduled("fast", "* * * * * *", schedule_seconds=True))
    await world.sql("update task_job_definitions set fired_until = now() - interval '7 s'")
    await service.Scheduler(world.parts, world.identity).tick()
    assert 6 <= len(await world.keys()) <= 8


async def test_an_idle_definition_keeps_up_in_one_statement(world: World) -> None:
    await world.add(scheduled("yearly", "0 0 1 1 *"), scheduled("monthly", "0 0 1 * *"))
    await world.turn(at(12, 1))
    assert await world.fired_until("yearly") == await world.fired_until("monthly") == at(12, 1)
    assert await misses_of_all(world) == 0
