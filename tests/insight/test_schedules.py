"""What an operator sees of the schedules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from taskengine.insight.schedules import next_fires, schedules
from taskengine.lifecycle.parts import Parts
from taskengine.model.definition import Definition
from taskengine.model.surroundings import StoreInfo
from tests.support.scheduling import NOON, World, at, scheduled


@pytest.fixture
def world(parts: Parts) -> Iterator[World]:
    world = World(parts)
    yield world
    world.close()


def test_next_fires_are_in_the_zone_and_in_utc_for_each_clock() -> None:
    body = scheduled("totals", "0 2 * * *", scope="per_store", time_zone="store")
    definition = Definition("totals", body.settings, 1, NOON, None)
    stores = [
        StoreInfo("1", "one", "America/New_York"),
        StoreInfo("2", "two", "Asia/Kolkata"),
        StoreInfo("3", "three", "America/New_York"),
    ]
    india, new_york = next_fires(definition, stores, 1, NOON)
    assert (india.at, india.local.hour, india.stores) == (at(20, 30), 2, ("2",))
    assert (new_york.at, new_york.local.hour, new_york.stores) == (at(7, days=1), 2, ("1", "3"))


async def test_the_list_shows_last_next_missed_and_errors(world: World) -> None:
    await world.add(scheduled("totals", "0 * * * *"), scheduled("broken"), scheduled("off"))
    await world.turn(at(15, 30))
    await world.sql(
        "update task_job_definitions set schedule = '0 0 30 2 *' where name = 'broken';"
    )
    await world.sql("update task_job_definitions set is_enabled = false where name = 'off'")
    broken, off, totals = await schedules(world.parts, 2)
    assert "never" in str(broken.error)
    assert (broken.next, off.next, off.is_enabled) == ((), (), False)
    assert totals.last is not None
    assert (totals.last.fire_time, totals.last.state) == (at(15), "pending")
    assert (totals.missed, totals.error, totals.is_known) == (2, None, True)
    first, second = totals.next
    assert second.at - first.at == timedelta(hours=1)
    assert first.at.tzinfo is UTC or first.at.utcoffset() == timedelta(0)
    assert first.at > datetime(2026, 11, 2, tzinfo=UTC)


async def test_a_schedule_that_no_daemon_knows_says_so(world: World) -> None:
    await world.register(scheduled("nobodys"))
    (found,) = await schedules(world.parts)
    assert (found.is_known, found.last) == (False, None)
