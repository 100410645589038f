"""Each fire time runs once, whatever happens to daemons and transactions in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from taskengine.errors import StoreUnavailable
from taskengine.lifecycle.parts import Parts
from taskengine.store import definitions, executions
from tests.support.scheduling import NOON, World, at, scheduled


@pytest.fixture
def world(parts: Parts) -> Iterator[World]:
    world = World(parts)
    yield world
    world.close()


async def row(world: World, name: str) -> Any:
    return (await world.sql("select * from task_executions where job = $1", name))[0]


async def test_a_fire_time_makes_one_execution_with_the_engines_key_and_delivers_it(
    world: World,
) -> None:
    await world.add(scheduled("totals"))
    await world.turn(at(12, 1))
    assert await world.keys() == ["totals:2026-11-02T12:01:00Z"]
    made = await row(world, "totals")
    assert (made["scheduled_for"], made["key_is_drawn"], made["state"]) == (
        at(12, 1),
        True,
        "pending",
    )
    assert await world.waiting() == 1
    assert await world.fired_until("totals") == at(12, 1)


async def test_three_restarts_inside_one_minute_fire_it_once(world: World) -> None:
    await world.add(scheduled("totals"))
    for second in (0, 10, 20, 50):
        await world.turn(at(12, 1, second), world.scheduler())
    assert len(await world.keys()) == 1


async def test_while_its_daemon_drains_it_fires_nothing_and_another_does(world: World) -> None:
    await world.add(scheduled("totals"))
    drained = world.scheduler()
    world.identity.draining = True
    await world.turn(at(12, 1), drained)
    assert await world.keys() == []
    world.identity.draining = False
    await world.turn(at(12, 1))
    assert await world.keys() == ["totals:2026-11-02T12:01:00Z"]


async def test_two_schedulers_at_once_make_one_execution_per_slot(world: World) -> None:
    await world.add(*(scheduled(f"job-{n}") for n in range(5)))
    both = [world.scheduler(), world.scheduler()]
    for minute in range(1, 6):
        world.now = at(12, minute, 6)
        await asyncio.gather(*(each.tick() for each in both))
    keys = await world.keys()
    assert len(keys) == len(set(keys)) == 25


async def test_a_slot_that_succeeded_before_the_advance_was_lost_does_not_run_again(
    world: World,
) -> None:
    """C17: died after the run, before 'next run' was stored: here both are one transaction, so
    the lost advance is made by hand."""
    await world.add(scheduled("totals"))
    await world.turn(at(12, 1))
    await world.end("succeeded", "totals")
    await world.sql("update task_job_definitions set fired_until = $1", NOON)
    await world.turn(at(12, 1, 30))
    assert len(await world.keys()) == 1
    assert await world.misses() == []


async def test_a_kill_between_advance_and_insert_leaves_neither(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C52."""
    await world.add(scheduled("totals"))

    async def killed(*_args: object, **_named: object) -> None:
        raise StoreUnavailable("killed")

    with monkeypatch.context() as patch:
        patch.setattr(executions, "insert", killed)
        with pytest.raises(StoreUnavailable):
            await world.turn(at(12, 1))
    assert await world.fired_until("totals") == NOON
    await world.turn(at(12, 1, 20))
    assert await world.keys() == ["totals:2026-11-02T12:01:00Z"]


async def test_a_crash_before_delivery_leaves_a_pending_row_for_the_sweep(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add(scheduled("totals"))

    async def crashed(*_: object) -> bool:
        return False

    monkeypatch.setattr("taskengine.lifecycle.fire.deliver", crashed)
    await world.turn(at(12, 1))
    assert (len(await world.keys()), await world.waiting()) == (1, 0)


async def test_a_key_that_is_there_already_is_normal_and_delivered_again(world: World) -> None:
    """C51: inserted by hand just before the tick; the other jobs of the tick are handled."""
    await world.add(scheduled("totals"), scheduled("other"))
    await world.turn(at(12, 1))
    await world.parts.client.command("DEL", world.parts.keys.queue("default"))
    await world.sql("update task_job_definitions set fired_until = $1", NOON)
    await world.turn(at(12, 1, 10))
    assert len(await world.keys()) == 2
    assert await world.waiting() == 2
    assert world.told("schedule.held") == []


async def test_only_a_definition_whose_class_is_known_here_is_fired(world: World) -> None:
    await world.register(scheduled("elsewhere"))
    await world.turn(at(12, 1))
    assert await world.keys() == []
    assert await world.fired_until("elsewhere") == NOON


async def test_a_disabled_definition_does_not_fire_and_enabling_begins_now(world: World) -> None:
    await world.add(scheduled("totals", missed="all", is_enabled=False))
    await world.turn(at(12, 5))
    async with world.parts.store.connection() as c:
        queues = world.parts.config.engine.queues
        await definitions.set_(c, "totals", {"is_enabled": True}, queues, at(12, 5))
    await world.turn(at(12, 6))
    assert await world.keys() == ["totals:2026-11-02T12:06:00Z"]


async def test_a_schedule_changed_between_read_and_advance_is_not_fired_by_the_old_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add(scheduled("totals"))
    async with world.parts.store.connection() as c:
        stale = await definitions.get(c, "totals")
        await definitions.set_(c, "totals", {"schedule": "0 4 * * *"}, ["default"], NOON)
    assert stale is not None

    async def read_before(_: object) -> list[Any]:
        return [stale]

    monkeypatch.setattr(definitions, "scheduled", read_before)
    await world.turn(at(12, 1))
    assert await world.keys() == []
    assert await world.fired_until("totals") == NOON
