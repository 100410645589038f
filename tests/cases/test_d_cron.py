"""Cases of cron expressions: which moments they mean, and which are refused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from taskengine import job
from taskengine.errors import ScheduleError
from taskengine.lifecycle.parts import Parts
from taskengine.model.schedule import Schedule
from taskengine.store import definitions
from tests.support.scheduling import NOON, World, at, scheduled

NEW_YORK = "America/New_York"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(expression: str, zone: str, first: str, last: str) -> list[str]:
    """Its fires on the local days from `first` to `last`, as `MM-DD HH:MM` there."""
    start = datetime.fromisoformat(first).replace(tzinfo=ZoneInfo(zone))
    end = datetime.fromisoformat(last).replace(tzinfo=ZoneInfo(zone)) + timedelta(days=1)
    tick = timedelta(microseconds=1)
    found = Schedule.parse(expression, zone).fires(
        start.astimezone(UTC) - tick, end.astimezone(UTC) - tick
    )
    return [f"{each.astimezone(ZoneInfo(zone)):%m-%d %H:%M}" for each in found]


def minutes(expression: str, count: int) -> list[int]:
    found = Schedule.parse(expression, "UTC").preview(utc("2026-01-01T00:00"), count)
    return [each.minute for each in found]


def refused(expression: str) -> str:
    """What is said where it is saved: a definition is refused when it is declared."""

    async def body(ctx: Any) -> None:
        """Never runs."""

    with pytest.raises(ScheduleError) as told:
        job("cron", schedule=expression)(body)
    return str(told.value)


@pytest.mark.parametrize(("expression", "count"), [("0 * * * *", 25), ("*/30 * * * *", 50)])
def test_c34_the_repeated_hour_fires_once_for_each_real_hour(expression: str, count: int) -> None:
    found = local(expression, NEW_YORK, "2026-11-01", "2026-11-01")
    assert len(found) == count
    assert found.count("11-01 01:00") == 2
    assert len(local(expression, NEW_YORK, "2026-11-02", "2026-11-02")) == count * 24 // 25


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 2 * * *", "15,45 2 * * *", "*/5 2 * * *"])
def test_c35_a_time_that_does_not_exist_fires_once_after_the_gap(expression: str) -> None:
    assert local(expression, NEW_YORK, "2026-03-08", "2026-03-08") == ["03-08 03:00"]
    assert Schedule.parse(expression, NEW_YORK).next(utc("2026-03-08T06:59")) == utc(
        "2026-03-08T07:00"
    )
    assert local(expression, NEW_YORK, "2026-03-09", "2026-03-09")[0].startswith("03-09 02:")


@pytest.mark.parametrize(
    ("expression", "zone", "days", "expected"),
    [
        ("0 0 * * *", NEW_YORK, ("2026-03-07", "2026-03-10"), ["07", "08", "09", "10"]),
        ("0 0 * * *", NEW_YORK, ("2026-10-31", "2026-11-03"), ["31", "01", "02", "03"]),
        ("0 0 * * *", "Africa/Cairo", ("2026-04-23", "2026-04-25"), ["23", "24", "25"]),
        ("15 2 * * *", "Australia/Lord_Howe", ("2026-10-03", "2026-10-05"), ["03", "04", "05"]),
    ],
)
def test_c37_one_run_each_local_day(
    expression: str, zone: str, days: tuple[str, str], expected: Sequence[str]
) -> None:
    found = local(expression, zone, *days)
    assert [text[3:5] for text in found] == expected


def test_c37_where_the_time_does_not_exist_it_is_the_first_that_does() -> None:
    assert local("0 0 * * *", "Africa/Cairo", "2026-04-24", "2026-04-24") == ["04-24 01:00"]
    lord_howe = local("15 2 * * *", "Australia/Lord_Howe", "2026-10-04", "2026-10-04")
    assert lord_howe == ["10-04 02:30"]
    assert local("30 23 * * *", "Africa/Cairo", "2026-10-29", "2026-10-29") == ["10-29 23:30"]


@pytest.mark.parametrize(
    "days", [("2026-03-07", "2026-03-09"), ("2026-10-31", "2026-11-02")], ids=["spring", "autumn"]
)
def test_c38_the_day_after_the_change_keeps_the_local_hour(days: tuple[str, str]) -> None:
    found = local("0 20 * * *", NEW_YORK, *days)
    assert [text[6:] for text in found] == ["20:00"] * 3


NEVER = ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 29 2 1#1"]


@pytest.mark.parametrize("expression", NEVER)
async def test_c40_what_can_never_fire_is_refused_when_it_is_saved(
    parts: Parts, expression: str
) -> None:
    """Declared or changed; and one that stands there already is marked and skipped, alone."""
    assert "never" in refused(expression)
    world = World(parts)
    await world.add(scheduled("cron"), scheduled("other"))
    async with parts.store.connection() as c:
        with pytest.raises(ScheduleError, match="never"):
            await definitions.set_(c, "cron", {"schedule": expression}, ["default"], NOON)
    stored = "update task_job_definitions set schedule = $1 where name = 'cron'"
    await world.sql(stored, expression)
    await world.turn(at(12, 1))
    world.close()
    assert await world.keys() == ["other:2026-11-02T12:01:00Z"]
    assert [each["task"] for each in world.told("schedule.broken")] == ["cron"]
    async with parts.store.connection() as c:
        found = await definitions.get(c, "cron")
    assert found is not None
    assert "never" in (found.error or "")


def test_c40_what_fires_seldom_is_not_refused() -> None:
    assert Schedule.parse("0 0 30 2 MON", "UTC").next(utc("2026-01-01")) == utc("2026-02-02")
    assert Schedule.parse("0 0 29 2 *", "UTC").next(utc("2026-01-01")) == utc("2028-02-29")
    assert Schedule.parse("0 0 29 2 *", "UTC").next(utc("2096-03-01")) == utc("2104-02-29")


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("*/10 * * * * *", "seconds flag"),
        ("0 */5 * * * *", "seconds flag"),
        ("0 0 12 * * ?", "`?` is written *"),
        ("0 0 12 * * * 2026", "five fields"),
        ("0\n0 * * * *", "line break"),
    ],
)
def test_c42_a_sixth_field_is_refused_with_a_hint(expression: str, hint: str) -> None:
    assert hint in refused(expression)


def test_c42_seconds_stand_first_where_they_are_asked_for() -> None:
    found = Schedule.parse("*/10 * * * * *", "UTC", True).preview(utc("2026-01-01"), 3)
    assert [each.second for each in found] == [10, 20, 30]


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 13 * 5", ["02", "09", "13", "16", "23", "30"]),
        ("0 0 1-7 * MON", ["01", "02", "03", "04", "05", "06", "07", "12", "19", "26"]),
        ("0 0 1 * MON", ["01", "05", "12", "19", "26"]),
        ("0 0 */10 * MON", ["01", "05", "11", "12", "19", "21", "26", "31"]),
        ("0 0 15 * 1#1", ["05", "15"]),
        ("0 0 15 * L5", ["15", "30"]),
    ],
)
def test_c43_either_day_field_is_enough(expression: str, days: list[str]) -> None:
    found = local(expression, "UTC", "2026-01-01", "2026-01-31")
    assert [text[3:5] for text in found] == days


@pytest.mark.parametrize("expression", ["*/60 * * * *", "*/61 * * * *", "*/90 * * * *"])
def test_c44_a_step_beyond_its_range_is_refused(expression: str) -> None:
    assert "larger than the range" in refused(expression)


def test_c44_a_step_of_zero_is_refused_and_the_others_start_anew_each_hour() -> None:
    assert "never ends" in refused("*/0 * * * *")
    assert minutes("*/7 * * * *", 10)[-3:] == [56, 0, 7]
    assert minutes("*/45 * * * *", 3) == [45, 0, 45]
    assert minutes("5/15 * * * *", 4) == [5, 20, 35, 50]


@pytest.mark.parametrize(
    "expression", ["50-10 * * * *", "0 22-2 * * *", "0 0 * * fri-mon", "5-3/2 * * * *"]
)
def test_c45_a_reversed_range_is_refused_with_what_would_be_right(expression: str) -> None:
    told = refused(expression)
    assert "backwards" in told or "," in told


@pytest.mark.parametrize("moment", ["2028-02-29T00:00", "2028-02-29T12:00", "2028-03-01T00:00"])
def test_c46_the_leap_day_itself_is_no_trouble(moment: str) -> None:
    assert Schedule.parse("0 0 29 2 *", "UTC").next(utc(moment)) == utc("2032-02-29")
    assert Schedule.parse("0 9 29 * *", "UTC").next(utc(moment)) > utc(moment)
    assert Schedule.parse("0 0 L * *", "UTC").next(utc(moment)).day in (29, 31)
    assert Schedule.parse("0 0 * * 5#5", "UTC").next(utc(moment)) == utc("2028-03-31")


@pytest.mark.parametrize("expression", ["R R * * *", "H * * * *", "@reboot", "0 0 * * 5#6"])
def test_c46_what_would_mean_something_else_at_each_load_is_refused(expression: str) -> None:
    assert refused(expression)
