"""Cases of the scheduler: restarts, two at once, lost steps, clocks that jump."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from taskengine.lifecycle.parts import Parts
from taskengine.model.schedule import Schedule
from taskengine.store import executions
from tests.cases.support import Ground
from tests.support.scheduling import NOON, World, at, scheduled


@pytest.fixture
def world(parts: Parts) -> Iterator[World]:
    world = World(parts)
    yield world
    world.close()


@pytest.fixture
def host_zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """The host lives in this zone while the test runs."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield str(request.param)
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize("host_zone", ["America/New_York", "UTC"], indirect=True)
async def test_c39_fire_instants_do_not_depend_on_the_hosts_zone(
    world: World, host_zone: str
) -> None:
    await world.add(
        scheduled("london", "30 12 * * *", time_zone="Europe/London"),
        scheduled("kolkata", "0 18 * * *", time_zone="Asia/Kolkata"),
    )
    for minute in (29, 30, 31):
        await world.turn(at(12, minute), world.scheduler())
        await world.sql("set time zone 'Asia/Tokyo'")
    assert await world.keys() == ["kolkata:2026-11-02T12:30:00Z", "london:2026-11-02T12:30:00Z"]
    naive = await world.sql(
        "select table_name, column_name from information_schema.columns"
        " where table_schema = current_schema() and data_type = 'timestamp without time zone'"
    )
    assert naive == []


@pytest.mark.parametrize(
    "down", [timedelta(hours=6), timedelta(days=365)], ids=["six-hours", "a-year"]
)
async def test_c48_after_an_outage_one_run_catches_up(world: World, down: timedelta) -> None:
    """The default, `latest`: one run; what was passed over is on record as missed."""
    await world.add(scheduled("totals"))
    back = NOON + down
    while await world.turn(back):
        pass
    assert await world.keys() == [f"totals:{back:%Y-%m-%dT%H:%M:%SZ}"]
    assert await world.fired_until("totals") == back
    await world.turn(back + timedelta(minutes=1))
    assert len(await world.keys()) == 2


@pytest.mark.parametrize(
    ("jump", "fired"),
    [
        (timedelta(hours=2), ["12:01", "14:01"]),
        (timedelta(hours=-1), ["12:01", "12:02", "12:03"]),
        (timedelta(seconds=-2), ["12:01", "12:02", "12:03"]),
    ],
    ids=["two-hours-on-and-back", "an-hour-back", "a-step-after-a-fire"],
)
async def test_c49_a_clock_that_jumps_repeats_nothing_and_stops_nothing(
    world: World, jump: timedelta, fired: list[str]
) -> None:
    """A slot fires once; what a clock ahead has fired is not waited for: the next slot comes."""
    await world.add(scheduled("totals"))
    await world.turn(at(12, 1))
    await world.turn(at(12, 1) + jump)
    for minute in (1, 2, 3):
        await world.turn(at(12, minute))
    assert await world.keys() == [f"totals:2026-11-02T{time}:00Z" for time in fired]
    later = max(at(12, 4), at(12, 1) + jump + timedelta(minutes=1))
    await world.turn(later)
    assert (await world.keys())[-1] == f"totals:{later:%Y-%m-%dT%H:%M:%SZ}"
    assert bool(world.told("schedule.ahead")) == (abs(jump) > timedelta(minutes=1))


async def test_c50_a_second_scheduler_doubles_nothing(world: World) -> None:
    await world.add(*(scheduled(f"job-{n}") for n in range(5)))
    both = [world.scheduler(), world.scheduler()]
    for minute in range(1, 4):
        for second in (0, 3, 6):
            world.now = at(12, minute, second)
            await asyncio.gather(*(each.tick() for each in both))
    keys = await world.keys()
    assert len(keys) == len(set(keys)) == 15


@pytest.mark.slow
async def test_c50_a_second_daemon_by_hand_shares_each_slot_once(ground: Ground) -> None:
    """Two real ones over a schedule of seconds, one of them restarted in between."""
    first = ground.daemon()
    ground.daemon()
    await ground.sql(
        "update task_job_definitions set is_enabled = true, fired_until = now()"
        " where name = 'each-second'"
    )
    await ground.until_count("state = 'succeeded'", 3)
    first.kill()
    await ground.until_count("state = 'succeeded'", 6)
    first.start()
    await ground.until_count("state = 'succeeded'", 12)
    slots = await ground.sql("select distinct scheduled_for from task_executions")
    assert len(slots) == await ground.count("scheduled_for is not null")
    done = await ground.sql(
        "select id from task_executions where state = 'succeeded' and fence = 1"
    )
    assert {ground.runs()[row["id"]] for row in done} == {1}


async def test_c51_a_slot_that_is_taken_is_no_error_and_holds_nobody_up(world: World) -> None:
    """Taken by hand; and, in `alone`, by the exclusive run before it, which is not over."""
    alone = scheduled("alone")

    @alone.exclusive
    def one() -> str:
        return "alone"

    await world.add(scheduled("taken"), scheduled("other"), alone)
    await world.sql(
        "insert into task_executions (job, queue, idempotency_key)"
        " values ('taken', 'default', 'taken:2026-11-02T12:01:00Z')"
    )
    await world.turn(at(12, 1))
    assert len(await world.keys()) == 3
    await world.sql(
        "update task_executions set state = 'running', claim_token = 1 where job = 'alone'"
    )
    await world.turn(at(12, 2))
    for name in ("taken", "other", "alone"):
        assert len(await world.keys(name)) == 2
    for event in ("schedule.failed", "schedule.held", "schedule.missed"):
        assert world.told(event) == []


@pytest.mark.parametrize("after", [False, True], ids=["before-the-insert", "after-the-insert"])
async def test_c52_a_kill_between_advance_and_insert_leaves_both_or_neither(
    world: World, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    await world.add(scheduled("totals"))
    real = executions.insert

    async def killed(*args: Any, **more: Any) -> Any:
        if after:
            await real(*args, **more)
        raise asyncio.CancelledError

    monkeypatch.setattr(executions, "insert", killed)
    with pytest.raises(asyncio.CancelledError):
        await world.turn(at(12, 1))
    monkeypatch.undo()
    assert await world.keys() == []
    assert await world.fired_until("totals") == NOON
    await world.turn(at(12, 1, 30))
    await world.turn(at(12, 1, 40))
    assert await world.keys() == ["totals:2026-11-02T12:01:00Z"]


def test_c39_an_instant_is_computed_with_the_zone_and_kept_in_utc() -> None:
    summer = datetime.fromisoformat("2026-07-01T00:00+00:00")
    found = Schedule.parse("0 9 * * *", "Europe/London").next(summer)
    assert found.isoformat() == "2026-07-01T08:00:00+00:00"
