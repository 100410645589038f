"""Schedules against cronsim as an oracle, and against themselves."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from taskengine.errors import ScheduleError
from taskengine.model.schedule import Schedule

NEW_YORK = "America/New_York"
ZONES = [NEW_YORK, "Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def field(low: int, high: int, wildcard: bool = True) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(sorted).map(lambda pair: f"{pair[0]}-{pair[1]}")
    steps = st.integers(1, (high - low) // 2).map(lambda n: f"*/{n}")
    plain = st.lists(number.map(str) | ranges, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), steps, plain) if wildcard else plain


DAYS = st.one_of(st.just("*"), st.just("L"), field(1, 31, wildcard=False))
WEEKDAYS = st.one_of(
    st.just("*"),
    field(0, 6, wildcard=False),
    st.tuples(st.integers(0, 6), st.integers(1, 5)).map(lambda pair: f"{pair[0]}#{pair[1]}"),
)
MONTHS = st.one_of(st.just("*"), field(1, 12))
EXPRESSIONS = st.builds("{} {} {} {} {}".format, field(0, 59), field(0, 23), DAYS, MONTHS, WEEKDAYS)
STARTS = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
AROUND_CHANGES = st.sampled_from(
    [
        utc(text)
        for text in (
            "2026-03-08T05:00",
            "2026-11-01T03:30",
            "2026-03-28T22:00",
            "2026-10-24T23:10",
            "2026-04-23T20:00",
            "2026-10-29T19:30",
            "2026-04-04T13:00",
            "2026-10-03T14:00",
        )
    ]
)


def oracle(expression: str, zone: str, start: datetime, n: int) -> list[datetime]:
    """cronsim's next fires, each once: it gives the end of a gap for each time in it."""
    coming = CronSim(expression, start.astimezone(ZoneInfo(zone)))
    found: list[datetime] = []
    for moment in itertools.islice(coming, n * 4):
        instant = moment.astimezone(UTC)
        if instant > (found[-1] if found else start):
            found.append(instant)
    return found[:n]


@settings(derandomize=True, deadline=None, max_examples=400)
@given(EXPRESSIONS, st.sampled_from(ZONES), AROUND_CHANGES | STARTS)
def test_as_cronsim_has_it(expression: str, zone: str, start: datetime) -> None:
    minute, hour, *_ = expression.split()
    # cronsim takes a wildcard minute for a wildcard hour; ours follows the hour alone.
    assume(zone == "UTC" or hour.startswith("*") or not minute.startswith("*"))
    try:
        schedule = Schedule.parse(expression, zone)
        expected = oracle(expression, zone, start, 6)
    except (ScheduleError, CronSimError):
        assume(False)
    found = list(itertools.islice(schedule.fires(start, start + timedelta(days=15_000)), 6))
    assert found[: len(expected)] == expected[: len(found)]


@settings(derandomize=True, deadline=None, max_examples=250)
@given(
    EXPRESSIONS,
    st.sampled_from(ZONES),
    STARTS | AROUND_CHANGES,
    st.integers(0, 3 * 86400).map(lambda n: timedelta(seconds=n)),
)
def test_forwards_backwards_and_counted(
    expression: str, zone: str, start: datetime, length: timedelta
) -> None:
    try:
        schedule = Schedule.parse(expression, zone)
    except ScheduleError:
        assume(False)
    found = list(schedule.fires(start, start + length))
    assert found == sorted(set(found))
    assert all(start < instant <= start + length for instant in found)
    assert schedule.latest(start, start + length) == (found[-1] if found else None)
    assert schedule.count(start, start + length) == len(found)
    assert not found or schedule.next(start) == found[0]


def test_a_year_of_minutes_is_neither_walked_nor_lost() -> None:
    for zone in ZONES:
        schedule = Schedule.parse("* * * * *", zone)
        start, end = utc("2026-01-01T00:00"), utc("2027-01-01T00:00")
        assert schedule.count(start, end) == 365 * 1440
        assert schedule.latest(start, end) == end
