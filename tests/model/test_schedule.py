"""Which days schedules mean, and which expressions are refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from taskengine.errors import ScheduleError
from taskengine.model.schedule import Schedule

NEW_YORK = "America/New_York"
ZONES = [NEW_YORK, "Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fires(expression: str, zone: str, first: str, last: str, seconds: bool = False) -> list[str]:
    """The fires on the local days from `first` to `last`, shown in local time with the offset."""
    start = datetime.fromisoformat(first).replace(tzinfo=ZoneInfo(zone))
    end = datetime.fromisoformat(last).replace(tzinfo=ZoneInfo(zone)) + timedelta(days=1)
    tick = timedelta(microseconds=1)
    schedule = Schedule.parse(expression, zone, seconds)
    found = schedule.fires(start.astimezone(UTC) - tick, end.astimezone(UTC) - tick)
    return [instant.astimezone(ZoneInfo(zone)).isoformat() for instant in found]


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 13 * 5", ["02", "09", "13", "16", "23", "30"]),
        ("0 0 1-7 * MON", ["01", "02", "03", "04", "05", "06", "07", "12", "19", "26"]),
        ("0 0 1 * MON", ["01", "05", "12", "19", "26"]),
        ("0 0 */1 * MON", ["05", "12", "19", "26"]),
        ("0 0 15 * 1#1", ["05", "15"]),
        ("0 0 15 * L5", ["15", "30"]),
        ("0 0 * * 1#1,2#2", ["05", "13"]),
        ("0 0 L * *", ["31"]),
        ("0 0 L,15 * *", ["15", "31"]),
        ("0 0 17W * *", ["16"]),
        ("0 0 18W * *", ["19"]),
        ("0 0 31W * L1", ["26", "30"]),
        ("0 0 * * sat-sun", ["03", "04", "10", "11", "17", "18", "24", "25", "31"]),
        ("0 0 * * 5-7/2", ["02", "04", "09", "11", "16", "18", "23", "25", "30"]),
        ("0 0 * * 7", ["04", "11", "18", "25"]),
        ("0 0 * * 5#5", ["30"]),
        ("@weekly", ["04", "11", "18", "25"]),
        ("@Monthly", ["01"]),
    ],
)
def test_either_day_field_is_enough(expression: str, days: list[str]) -> None:
    found = fires(expression, "UTC", "2026-01-01", "2026-01-31")
    assert [text[8:10] for text in found] == days


def test_leap_days() -> None:
    for moment in ("2028-02-29T00:00", "2028-02-29T12:00", "2028-03-01T00:00"):
        assert Schedule.parse("0 0 29 2 *", "UTC").next(utc(moment)) == utc("2032-02-29T00:00")
        Schedule.parse("0 9 29 * *", "UTC").next(utc(moment))
        Schedule.parse("0 0 L * *", "UTC").next(utc(moment))
        Schedule.parse("0 0 * * 5#5", "UTC").next(utc(moment))
    assert Schedule.parse("0 0 29 2 *", "UTC").next(utc("2096-03-01")) == utc("2104-02-29")
    assert Schedule.parse("0 0 * 2 5#5", "UTC").next(utc("2026-01-01")) == utc("2036-02-29")


def test_steps_start_anew_at_each_hour() -> None:
    found = Schedule.parse("*/7 * * * *", "UTC").preview(utc("2026-01-01T00:48"), 3)
    assert [moment.minute for moment in found] == [49, 56, 0]
    found = Schedule.parse("5/15 * * * *", "UTC").preview(utc("2026-01-01T00:00"), 4)
    assert [moment.minute for moment in found] == [5, 20, 35, 50]


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("*/10 * * * * *", "seconds flag"),
        ("0 0 12 * * ?", "written"),
        ("0 0 12 ? *", "write"),
        ("0 0 12 * * * 2026", "five fields"),
        ("0\n0 * * * *", "line break"),
        ("0\t0 * * *", "control"),
        ("0 0 * * *\n", "line break"),
        ("0\u00a00 * * *", "non-ASCII"),
        ("\u0660 0 * * *", "non-ASCII"),
        ("@reboot", "@hourly"),
        ("@every 5m", "@hourly"),
        ("R R * * *", "random"),
        ("H * * * *", "random"),
        ("H(0-5) * * * *", "random"),
        ("*/60 * * * *", "larger than the range"),
        ("*/61 * * * *", "larger than the range"),
        ("*/90 * * * *", "larger than the range"),
        ("0 */24 * * *", "larger than the range"),
        ("0 0 * * */7", "larger than the range"),
        ("59/15 * * * *", "larger than the range"),
        ("*/0 * * * *", "never ends"),
        ("50-10 * * * *", "50-59,0-10"),
        ("5-3/2 * * * *", "backwards"),
        ("0 22-2 * * *", "22-23,0-2"),
        ("0 0 * * fri-mon", "backwards"),
        ("0 0 * nov-feb *", "backwards"),
        ("60 * * * *", "0 to 59"),
        ("0 24 * * *", "0 to 23"),
        ("0 0 0 * *", "1 to 31"),
        ("0 0 * 13 *", "jan to dec"),
        ("0 0 * * 8", "sun to sat"),
        ("0 0 * * funday", "sun to sat"),
        ("0 0 * * 5L", "not understood"),
        ("0 0 LW * *", "1 to 31"),
        ("0 0 * * 5#0", "not understood"),
        ("0 0 * * 5#6", "not understood"),
        ("0 0 * * MON,MON#1", "two schedules"),
        ("-1 * * * *", "not understood"),
        ("1,,2 * * * *", "not understood"),
        ("0 0 30 2 *", "never fire"),
        ("0 0 31 2 *", "never fire"),
        ("0 0 31 4,6,9,11 *", "never fire"),
        ("0 0 29 2 1#1", "two schedules"),
    ],
)
def test_refused_with_a_hint(expression: str, hint: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        Schedule.parse(expression, "UTC")
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    "expression", ["0 0 30 2 MON", "0 0 29 2 *", "0 0 31 2,3 *", "0-0 * * * *"]
)
def test_not_refused(expression: str) -> None:
    Schedule.parse(expression, "UTC")


@pytest.mark.parametrize(
    "zone",
    ["", "America/NewYork", "Mars/Base", "America", "../etc/passwd", "localtime", "\0", "store"],
)
def test_unknown_zones(zone: str) -> None:
    with pytest.raises(ScheduleError, match="zone"):
        Schedule.parse("0 0 * * *", zone)


def test_a_misspelt_zone_is_answered_with_the_nearest() -> None:
    with pytest.raises(ScheduleError, match="did you mean 'America/New_York'"):
        Schedule.parse("0 0 * * *", "America/NewYork")


# ---- seconds -------------------------------------------------------------------------------------


def test_seconds_stand_first() -> None:
    start = utc("2026-01-01T00:00")
    every_ten = Schedule.parse("*/10 * * * * *", "UTC", seconds=True)
    assert [m.second for m in every_ten.preview(start, 4)] == [10, 20, 30, 40]
    nightly = Schedule.parse("30 0 2 * * *", "UTC", seconds=True)
    assert nightly.next(start) == utc("2026-01-01T02:00:30")
    assert Schedule.parse("@hourly", "UTC", seconds=True).next(start) == utc("2026-01-01T01:00")
    with pytest.raises(ScheduleError, match="six fields"):
        Schedule.parse("0 2 * * *", "UTC", seconds=True)


def test_for_people() -> None:
    schedule = Schedule.parse("0 2 13 * fri", NEW_YORK)
    text = schedule.describe()
    assert "0 2 13 * fri in America/New_York" in text
    assert "either" not in text
    assert "match the day of month or the weekday" in text
    shown = schedule.preview(utc("2026-01-01T00:00"), 2)
    assert [moment.isoformat() for moment in shown] == [
        "2026-01-02T02:00:00-05:00",
        "2026-01-09T02:00:00-05:00",
    ]
    assert (
        "every real occurrence, seconds first"
        in Schedule.parse("0 * * * * *", "UTC", True).describe()
    )


def test_schedules_are_values() -> None:
    one = Schedule.parse("0 2 * * *", NEW_YORK)
    assert one == Schedule.parse("0 2 * * *", NEW_YORK)
    assert hash(one) == hash(Schedule.parse("0 2 * * *", NEW_YORK))
    assert one != Schedule.parse("0 2 * * *", "UTC")


# ---- what is made of a field ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "low", "high", "shown", "days"),
    [
        ("{} 0 * * *", 0, 59, lambda moment: moment.minute, 1),
        ("0 {} * * *", 0, 23, lambda moment: moment.hour, 1),
        ("0 0 {} * *", 1, 31, lambda moment: moment.day, 31),
        ("0 0 1 {} *", 1, 12, lambda moment: moment.month, 365),
        ("0 0 * * {}", 0, 7, lambda moment: moment.isoweekday() % 7, 7),
    ],
)
def test_every_range_means_what_it_says(
    template: str, low: int, high: int, shown: Callable[[datetime], int], days: int
) -> None:
    start = utc("2025-12-31T23:59")
    week = 7 if template.endswith("{}") else 1000
    for first, last in itertools.combinations_with_replacement(range(low, high + 1), 2):
        for step in (1, 2, 5):
            if step > 1 and first + step > last:
                continue
            part = f"{first}-{last}" + (f"/{step}" if step > 1 else "")
            schedule = Schedule.parse(template.format(part), "UTC")
            found = {shown(m) for m in schedule.fires(start, start + timedelta(days=days))}
            assert found == {n % week for n in range(first, last + 1, step)}, part
