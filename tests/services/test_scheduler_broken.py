"""What is broken, ahead of the clock or unknown is told, and stops nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import pytest

from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.slots import Slots, plan_slots
from taskengine.model.definition import Definition
from taskengine.model.surroundings import StoreInfo
from taskengine.services import scheduler as service
from tests.support.scheduling import NOON, World, at, scheduled


@pytest.fixture
def world(parts: Parts) -> Iterator[World]:
    world = World(parts)
    yield world
    world.close()


async def test_a_broken_definition_is_marked_once_and_the_good_ones_fire(world: World) -> None:
    """C104."""
    await world.add(*(scheduled(f"job-{n}") for n in range(4)))
    await world.sql("update task_job_definitions set schedule = '0 0 30 2 *' where name = 'job-1'")
    await world.sql("update task_job_definitions set queue = 'nowhere' where name = 'job-2'")
    for minute in (1, 2):
        await world.turn(at(12, minute))
    assert {key.split(":")[0] for key in await world.keys()} == {"job-0", "job-3"}
    errors = await world.sql("select name, error from task_job_definitions where error is not null")
    assert [each["name"] for each in errors] == ["job-1", "job-2"]
    assert [each["task"] for each in world.told("schedule.broken")] == ["job-1"]
    assert [each["task"] for each in world.told("job.skipped")] == ["job-2"]


async def test_the_mark_goes_when_the_definition_is_right_again(world: World) -> None:
    await world.add(scheduled("totals"))
    await world.sql("update task_job_definitions set queue = 'nowhere'")
    await world.turn(at(12, 1))
    await world.sql("update task_job_definitions set queue = 'low'")
    await world.turn(at(12, 2))
    (found,) = await world.sql("select error from task_job_definitions")
    assert found["error"] is None
    assert [each["task"] for each in world.told("job.mended")] == ["totals"]
    assert "totals:2026-11-02T12:02:00Z" in await world.keys()


async def test_a_definition_that_no_daemon_knows_is_told_after_a_minute_and_once(
    world: World,
) -> None:
    await world.register(scheduled("nobodys"), scheduled("theirs"))
    await world.sql(
        "insert into task_workers (name, host, pid, boot_id, version, queues, jobs, slots)"
        " values ('w', 'h', 1, 'b', '1', '{}', '{theirs}', 1)"
    )
    scheduler = world.scheduler()
    await world.turn(at(12, 1), scheduler)
    assert world.told("schedule.nobody_knows") == []
    for minute in (2, 3):
        await world.clock.advance(60)
        await world.turn(at(12, minute), scheduler)
    assert [each["task"] for each in world.told("schedule.nobody_knows")] == ["nobodys"]


async def test_a_definition_far_ahead_of_the_clock_is_an_alert_and_does_not_fire(
    world: World,
) -> None:
    await world.add(scheduled("totals"), scheduled("healthy"))
    await world.sql(
        "update task_job_definitions set fired_until = $1 where name = 'totals'", at(13)
    )
    scheduler = world.scheduler()
    await world.turn(at(12, 1), scheduler)
    await world.turn(at(12, 2), scheduler)
    assert await world.keys("totals") == []
    assert len(await world.keys("healthy")) == 2
    assert [each["task"] for each in world.told("schedule.ahead")] == ["totals"]


async def test_one_definition_that_fails_in_a_new_way_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add(scheduled("bad"), scheduled("good"))

    def buggy(definition: Definition, stores: Sequence[StoreInfo], now: datetime) -> Slots:
        if definition.name == "bad":
            raise RuntimeError("a bug")
        return plan_slots(definition, stores, now)

    monkeypatch.setattr(service, "plan_slots", buggy)
    await world.turn(at(12, 1))
    assert await world.keys() == ["good:2026-11-02T12:01:00Z"]
    assert [each["task"] for each in world.told("schedule.failed")] == ["bad"]


async def test_a_key_locked_by_an_open_transaction_holds_up_only_its_own_store(
    world: World,
) -> None:
    await world.open_stores(a="UTC", b="UTC", c="UTC")
    await world.add(scheduled("totals", scope="per_store"))
    async with world.parts.store.transaction() as c:
        await c.execute(
            "insert into task_executions (job, queue, idempotency_key, type_num)"
            " values ('totals', 'default', 'totals:2026-11-02T12:01:00Z:b', 'b')"
        )
        await world.turn(at(12, 1))
        assert [key[-1] for key in await world.keys()] == ["a", "c"]
        assert await world.fired_until("totals") == NOON
    await world.turn(at(12, 1, 1))
    assert [key[-1] for key in await world.keys()] == ["a", "b", "c"]
    assert await world.fired_until("totals") == at(12, 1, 1)


async def test_what_the_insert_refuses_is_on_record(world: World) -> None:
    await world.add(scheduled("totals", max_payload_bytes=1))
    await world.turn(at(12, 1))
    (miss,) = await world.misses()
    assert "max_payload_bytes" in miss.reason
