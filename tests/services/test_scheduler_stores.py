"""Per-store jobs: one execution for each active store, by its own clock where asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from taskengine.lifecycle.parts import Parts
from tests.support.scheduling import World, at, scheduled


@pytest.fixture
def world(parts: Parts) -> Iterator[World]:
    world = World(parts)
    yield world
    world.close()


async def test_a_per_store_job_makes_one_execution_for_each_active_store(world: World) -> None:
    await world.open_stores(a="UTC", b="Asia/Kolkata", closed="UTC")
    await world.sql("update stores set is_active = false where type_num = 'closed'")
    await world.add(scheduled("totals", scope="per_store"))
    await world.turn(at(12, 1))
    assert await world.keys() == [
        "totals:2026-11-02T12:01:00Z:a",
        "totals:2026-11-02T12:01:00Z:b",
    ]


async def test_with_the_zone_store_each_store_fires_by_its_own_clock_across_a_change(
    world: World,
) -> None:
    """The night of 1 November 2026: New York leaves summer time, Phoenix has none."""
    world.now = datetime(2026, 11, 1, 5, 0, tzinfo=UTC)
    await world.open_stores(ny="America/New_York", phx="America/Phoenix")
    await world.add(scheduled("totals", "30 1 * * *", scope="per_store", time_zone="store"))
    scheduler = world.scheduler()
    for minute in range(24 * 6 + 1):
        moment = datetime(2026, 11, 1, 5, 0, tzinfo=UTC) + timedelta(minutes=10 * minute)
        await world.turn(moment, scheduler)
    assert await world.keys() == [
        "totals:2026-11-01T05:30:00Z:ny",
        "totals:2026-11-01T08:30:00Z:phx",
    ]


async def test_a_store_with_a_broken_zone_is_on_record_and_stops_no_other(world: World) -> None:
    await world.open_stores(a="UTC", bad="Mars/Olympus")
    await world.add(scheduled("totals", scope="per_store", time_zone="store"))
    await world.turn(at(12, 1))
    assert await world.keys() == ["totals:2026-11-02T12:01:00Z:a"]
    (miss,) = await world.misses()
    assert (miss.type_num, "Mars/Olympus" in miss.reason) == ("bad", True)


async def test_a_store_opened_later_does_not_get_fire_times_from_before_it_was_there(
    world: World,
) -> None:
    await world.add(scheduled("totals", "0 13 * * *", scope="per_store", missed_grace=86400))
    for minute in (0, 1, 30, 59):
        await world.turn(at(13, minute))
    await world.open_stores(late="UTC")
    await world.turn(at(14))
    assert await world.keys() == []


async def test_thousands_of_stores_are_one_turn(world: World) -> None:
    await world.sql(
        "insert into stores (type_num, name) select n::text, 's' from generate_series(1, 2500) n"
    )
    await world.add(scheduled("totals", scope="per_store"))
    await world.turn(at(12, 1))
    assert len(await world.keys()) == 2500
    assert await world.waiting() == 2500
