"""When schedules fire on the days on which clocks are changed."""

from __future__ import annotations

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


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 2 * * *", "15,45 2 * * *", "*/5 2 * * *"])
def test_a_time_in_the_gap_fires_once_at_its_end(expression: str) -> None:
    assert fires(expression, NEW_YORK, "2026-03-08", "2026-03-08") == ["2026-03-08T03:00:00-04:00"]
    schedule = Schedule.parse(expression, NEW_YORK)
    following = schedule.next(utc("2026-03-08T07:00"))
    assert following.astimezone(ZoneInfo(NEW_YORK)).isoformat().startswith("2026-03-09T02:")


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("0 * * * *", 25),
        ("*/30 * * * *", 50),
        ("0 */1 * * *", 25),
        ("0 */2 * * *", 12),
        ("30 1 * * *", 1),
        ("0 0,1,2,3 * * *", 4),
        ("0 0-3 * * *", 4),
        ("*/15 1 * * *", 4),
    ],
)
def test_the_repeated_hour(expression: str, count: int) -> None:
    found = fires(expression, NEW_YORK, "2026-11-01", "2026-11-01")
    assert len(found) == count
    if count == 1:
        assert found == ["2026-11-01T01:30:00-04:00"]


@pytest.mark.parametrize(("expression", "count"), [("0 * * * *", 23), ("0 */2 * * *", 11)])
def test_wildcard_hours_skip_what_does_not_exist(expression: str, count: int) -> None:
    assert len(fires(expression, NEW_YORK, "2026-03-08", "2026-03-08")) == count


@pytest.mark.parametrize(
    ("first", "last"), [("2026-03-07", "2026-03-10"), ("2026-10-31", "2026-11-03")]
)
def test_one_midnight_a_day(first: str, last: str) -> None:
    found = fires("0 0 * * *", NEW_YORK, first, last)
    assert [text[:19] for text in found] == sorted({f"{text[:10]}T00:00:00" for text in found})
    assert len(found) == 4


def test_the_same_wall_time_on_the_days_around_a_change() -> None:
    for first, last in (("2026-03-07", "2026-03-09"), ("2026-10-31", "2026-11-02")):
        found = fires("0 20 * * *", NEW_YORK, first, last)
        assert [text[11:19] for text in found] == ["20:00:00"] * 3


def test_a_midnight_that_does_not_exist() -> None:
    found = fires("0 0 * * *", "Africa/Cairo", "2026-04-23", "2026-04-25")
    assert found[1] == "2026-04-24T01:00:00+03:00"
    assert len(found) == 3


def test_an_hour_that_is_repeated_before_midnight() -> None:
    found = fires("30 23 * * *", "Africa/Cairo", "2026-10-28", "2026-10-30")
    assert [text[:10] for text in found] == ["2026-10-28", "2026-10-29", "2026-10-30"]
    assert found[1].endswith("+03:00")
    assert len(fires("0 * * * *", "Africa/Cairo", "2026-10-29", "2026-10-29")) == 25
    only_then = fires("10 * 29 10 *", "Africa/Cairo", "2026-10-29", "2026-10-29")
    assert only_then[-2:] == ["2026-10-29T23:10:00+03:00", "2026-10-29T23:10:00+02:00"]


def test_half_an_hour_of_change() -> None:
    zone = "Australia/Lord_Howe"
    assert fires("15 2 * * *", zone, "2026-10-04", "2026-10-04") == ["2026-10-04T02:30:00+11:00"]
    assert len(fires("*/15 * * * *", zone, "2026-10-04", "2026-10-04")) == 94
    assert fires("45 1 * * *", zone, "2026-04-05", "2026-04-05") == ["2026-04-05T01:45:00+11:00"]
    assert len(fires("*/15 * * * *", zone, "2026-04-05", "2026-04-05")) == 98


def test_a_day_that_a_zone_left_out() -> None:
    found = fires("0 9 * * *", "Pacific/Apia", "2011-12-29", "2011-12-31")
    days = ["2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"]
    assert found == days


def test_the_bounds_are_open_and_closed() -> None:
    schedule = Schedule.parse("0 * * * *", "UTC")
    found = list(schedule.fires(utc("2026-01-01T01:00"), utc("2026-01-01T03:00")))
    assert found == [utc("2026-01-01T02:00"), utc("2026-01-01T03:00")]
    assert list(schedule.fires(utc("2026-01-01T01:00"), utc("2026-01-01T01:00"))) == []
    assert schedule.latest(utc("2026-01-01T01:00"), utc("2026-01-01T01:00")) is None


def test_bounds_in_any_zone_give_the_same_instants() -> None:
    schedule = Schedule.parse("30 1 * * *", "Europe/London")
    start, end = utc("2026-10-20T00:00"), utc("2026-11-20T00:00")
    for zone in map(ZoneInfo, ZONES):
        same = schedule.fires(start.astimezone(zone), end.astimezone(zone))
        assert list(same) == list(schedule.fires(start, end))
    with pytest.raises(ScheduleError, match="time zone"):
        schedule.next(start.replace(tzinfo=None))
