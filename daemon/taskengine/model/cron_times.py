"""The wall-clock times of a cron expression, as if no clock were ever changed.

Guarantees: `after` and `before` walk the same times in both directions, lazily, and `count` says
how many there are between two without walking; each costs little however far the next one is.
Where the expression restricts both the day of the month and the weekday, either is enough (as cron
has it), also with `#`, `L` and `W`. Zones are the business of `wall_time`.
"""

from __future__ import annotations

import calendar
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache

# The rarest expression, 29 February on a given weekday, comes every 28 years, and every 40 around
# a year that the Gregorian calendar makes a common one.
HORIZON_YEARS = 41

LAST = 0
"""In `days` and as the `n` of `nth`: the last one of the month."""


@dataclass(frozen=True, slots=True)
class DayRule:
    """Which days of a month. `None`: the field is `*`, and leaves the choice to the other one."""

    months: frozenset[int]
    days: frozenset[int] | None
    nearest: frozenset[int]
    """`15W`: the working day nearest to the 15th."""
    weekdays: frozenset[int] | None
    """Sunday is 0."""
    nth: frozenset[tuple[int, int]]
    """(weekday, n): `MON#1` is (1, 1), `L5` is (5, LAST)."""

    def in_month(self, year: int, month: int) -> tuple[int, ...]:
        """The days of that month, ascending."""
        return _days_in(self, year, month)


@lru_cache(maxsize=8192)
def _days_in(rule: DayRule, year: int, month: int) -> tuple[int, ...]:
    if month not in rule.months:
        return ()
    length = calendar.monthrange(year, month)[1]
    by_date = _by_date(rule, year, month, length)
    by_weekday = _by_weekday(rule, year, month, length)
    if by_date is None and by_weekday is None:
        return tuple(range(1, length + 1))
    return tuple(sorted((by_date or set()) | (by_weekday or set())))


def _by_date(rule: DayRule, year: int, month: int, length: int) -> set[int] | None:
    if rule.days is None:
        return None
    days = {length if day == LAST else day for day in rule.days if day <= length}
    return days | {_nearest_weekday(year, month, day, length) for day in rule.nearest}


def _nearest_weekday(year: int, month: int, day: int, length: int) -> int:
    """The working day nearest to the day, in the same month."""
    day = min(day, length)
    weekday = calendar.weekday(year, month, day)
    if weekday == calendar.SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == calendar.SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _by_weekday(rule: DayRule, year: int, month: int, length: int) -> set[int] | None:
    if rule.weekdays is None:
        return None
    first = (calendar.weekday(year, month, 1) + 1) % 7
    found = {day for day in range(1, length + 1) if (first + day - 1) % 7 in rule.weekdays}
    for weekday, n in rule.nth:
        days = range(1 + (weekday - first) % 7, length + 1, 7)
        found.update(days[n - 1 : n] if n != LAST else days[-1:])
    return found


@dataclass(frozen=True, slots=True)
class CronTimes:
    """Days, and the hours, minutes and seconds at which each of them fires (all ascending)."""

    days: DayRule
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]

    @property
    def per_day(self) -> int:
        """How many times a day."""
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def after(self, wall: datetime) -> Iterator[datetime]:
        """The times strictly after `wall` (naive), ascending; ends after `HORIZON_YEARS`."""
        for day in self._days_from(wall.date()):
            midnight = datetime.combine(day, time())
            for offset in _ascending(self, (wall - midnight).total_seconds()):
                yield midnight + timedelta(seconds=offset)

    def before(self, wall: datetime) -> Iterator[datetime]:
        """The times at or before `wall` (naive), descending; ends after `HORIZON_YEARS`."""
        for day in self._days_back_from(wall.date()):
            midnight = datetime.combine(day, time())
            for offset in _descending(self, (wall - midnight).total_seconds()):
                yield midnight + timedelta(seconds=offset)

    def count(self, after: datetime, until: datetime) -> int:
        """How many times there are after `after`, up to and with `until` (both naive)."""
        return self._count_to(until, after.year) - self._count_to(after, after.year)

    def _count_to(self, wall: datetime, year: int) -> int:
        months = [(y, m) for y in range(year, wall.year + 1) for m in range(1, 13)]
        whole = sum(len(self.days.in_month(y, m)) for y, m in months if (y, m) < _month(wall))
        days = self.days.in_month(wall.year, wall.month)
        earlier = bisect_right(days, wall.day - 1)
        return (whole + earlier) * self.per_day + self._count_of_day(wall, wall.day in days)

    def _count_of_day(self, wall: datetime, fires: bool) -> int:
        if not fires:
            return 0
        hours, same_hour = _split(self.hours, wall.hour)
        minutes, same_minute = _split(self.minutes, wall.minute)
        seconds = bisect_right(self.seconds, wall.second)
        in_minute = seconds if same_minute else 0
        in_hour = minutes * len(self.seconds) + in_minute if same_hour else 0
        return hours * len(self.minutes) * len(self.seconds) + in_hour

    def _days_from(self, start: date) -> Iterator[date]:
        for year, month in _months(start, 1):
            for day in self.days.in_month(year, month):
                if (found := date(year, month, day)) >= start:
                    yield found

    def _days_back_from(self, start: date) -> Iterator[date]:
        for year, month in _months(start, -1):
            for day in reversed(self.days.in_month(year, month)):
                if (found := date(year, month, day)) <= start:
                    yield found


def _month(day: date) -> tuple[int, int]:
    return day.year, day.month


def _months(start: date, step: int) -> Iterator[tuple[int, int]]:
    """The months from that of `start` on, forwards or backwards, as far as the horizon."""
    first = start.year * 12 + start.month - 1
    for number in range(first, first + step * HORIZON_YEARS * 12, step):
        year, month = divmod(number, 12)
        if date.min.year < year < date.max.year:
            yield year, month + 1


def _split(values: tuple[int, ...], here: int) -> tuple[int, bool]:
    """How many of the ascending values are below `here`, and whether `here` is one of them."""
    below = bisect_right(values, here - 1)
    return below, below < len(values) and values[below] == here


def _ascending(times: CronTimes, after: float) -> Iterable[int]:
    """Seconds since midnight of one day's times, those strictly after `after`."""
    for hour in times.hours:
        if hour * 3600 + 3599 > after:
            for minute in times.minutes:
                start = hour * 3600 + minute * 60
                if start + 59 > after:
                    yield from (start + s for s in times.seconds if start + s > after)


def _descending(times: CronTimes, until: float) -> Iterable[int]:
    """The same, downwards, from `until` on."""
    for hour in reversed(times.hours):
        if hour * 3600 <= until:
            for minute in reversed(times.minutes):
                start = hour * 3600 + minute * 60
                if start <= until:
                    yield from (start + s for s in reversed(times.seconds) if start + s <= until)
