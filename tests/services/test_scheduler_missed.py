"""Fire times that nobody ran when they came: run by policy, or on record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from taskengine.lifecycle.parts import Parts
from tests.support.scheduling import World, at, scheduled


@pytest.fixture
def world(parts: Parts) -> Iterator[World]:
    world = World(parts)
    yield world
    world.close()


@pytest.mark.parametrize(
    ("policy", "fired", "missed", "reasons"),
    [("skip", 0, 5, ["skipped"]), ("latest", 1, 4, ["superseded"]), ("all", 5, 0, [])],
)
async def test_missed_fire_times_go_by_policy_and_the_others_are_on_record(
    world: World, policy: str, fired: int, missed: int, reasons: list[str]
) -> None:
    await world.add(scheduled("totals", "0 * * * *", missed=policy))
    await world.turn(at(17, 30))
    assert len(await world.keys()) == fired
    assert len(await world.misses()) == missed
    assert sum(each["count"] for each in world.told("schedule.missed")) == missed
    assert [each["reason"] for each in world.told("schedule.missed")] == reasons
    assert await world.fired_until("totals") == at(17, 30)


async def test_beyond_the_grace_nothing_runs_and_the_reason_is_on_record(world: World) -> None:
    await world.add(scheduled("totals", "0 13 * * *", missed_grace=600))
    await world.turn(at(14))
    assert await world.keys() == []
    (miss,) = await world.misses()
    assert (miss.fire_time, "grace" in miss.reason) == (at(13), True)


async def test_a_store_whose_execution_is_there_did_not_miss_the_fire_time(world: World) -> None:
    """Judged per store: an outage in the middle of a turn leaves some with and some without."""
    await world.open_stores(a="UTC", b="UTC")
    await world.add(scheduled("totals", "0 * * * *", scope="per_store", missed="skip"))
    await world.sql(
        "insert into task_executions (job, queue, idempotency_key, type_num, scheduled_for)"
        " values ('totals', 'default', 'totals:2026-11-02T13:00:00Z:a', 'a', $1)",
        at(13),
    )
    await world.turn(at(13, 30))
    assert [miss.type_num for miss in await world.misses()] == ["b"]


async def test_a_year_long_outage_costs_less_than_a_second_and_one_run(world: World) -> None:
    await world.add(scheduled("totals"))
    await world.sql("update task_job_definitions set fired_until = $1", at(12, days=-365))
    loop = asyncio.get_running_loop()
    begun = loop.time()
    more = await world.turn(at(12, 0, 30))
    assert loop.time() - begun < 1.0
    assert (more, len(await world.keys())) == (False, 1)
    recorded = await world.misses()
    assert "more after it" in recorded[-1].reason
    assert world.told("schedule.missed")[0]["count"] == 365 * 24 * 60 - 1


async def test_the_policy_all_runs_a_long_window_in_bounded_turns(world: World) -> None:
    await world.add(scheduled("totals", missed="all", missed_grace=30 * 86400))
    more = await world.turn(at(12, days=2))
    assert more
    assert 0 < len(await world.keys()) < 2880
    while more:
        more = await world.turn(at(12, days=2))
    assert len(await world.keys()) == 2880
    assert await world.misses() == []


async def test_a_clock_that_jumps_ahead_and_back_repeats_nothing(world: World) -> None:
    """C49."""
    await world.add(scheduled("totals", "*/30 * * * *"))
    scheduler = world.scheduler()
    await world.turn(at(14), scheduler)
    keys = await world.keys()
    await world.turn(at(12, 30), scheduler)
    assert await world.keys() == keys
    (ahead,) = world.told("schedule.ahead")
    assert ahead["task"] == "totals"
    await world.turn(at(14, 30), scheduler)
    assert len(await world.keys()) == len(keys) + 1


async def test_a_small_step_back_after_a_fire_is_no_alert_and_no_second_run(world: World) -> None:
    await world.add(scheduled("totals"))
    scheduler = world.scheduler()
    await world.turn(at(12, 1, 1), scheduler)
    await world.turn(at(12, 0, 59), scheduler)
    await world.turn(at(12, 1, 0), scheduler)
    await world.turn(at(12, 2, 0), scheduler)
    assert len(await world.keys()) == 2
    assert world.told("schedule.ahead") == []
