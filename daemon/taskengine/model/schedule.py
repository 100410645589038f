"""When a job's schedule fires: a cron expression in a time zone.

Guarantees: what `parse` accepts does fire some day. A fixed wall time fires once a day, also on
the days on which clocks change: in the autumn's repeated hour at its first occurrence, in the
spring's gap at the first valid instant. An hour field with a wildcard (`*`, `*/2`) fires at every
real occurrence: 25 times for an hourly one in autumn. Hours written as a list or a range are fixed.
Where day of month and weekday are both given, either is enough.

croniter reads the fields; which instants follow from them is worked out by `cron_times` and
`fire_times`, because croniter repeats fixed times in autumn and reads `15 * 1#1` as "both".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter

from taskengine.errors import ScheduleError
from taskengine.model.cron_syntax import fields_of
from taskengine.model.cron_times import HORIZON_YEARS, LAST, CronTimes, DayRule
from taskengine.model.fire_times import (
    count_fires,
    fixed_fires,
    last_fixed,
    last_real,
    real_fires,
)
from taskengine.model.wall_time import zone_of

_FOREVER = timedelta(days=366 * HORIZON_YEARS)
_SOME_YEAR = datetime(2001, 1, 1)  # noqa: DTZ001 - wall time, which has no zone


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule; made by `parse`, equal where its text, zone and flag are."""

    expression: str
    zone: str
    seconds: bool
    _times: CronTimes = field(repr=False, compare=False)
    _zone: ZoneInfo = field(repr=False, compare=False)
    _fixed: bool = field(repr=False, compare=False)

    @staticmethod
    def parse(expression: str, zone: str, seconds: bool = False) -> Schedule:
        """Five cron fields or an `@` name; with `seconds` six, the seconds first.

        `zone` is an IANA name. Raises `ScheduleError` with a hint for what does not parse, reads
        differently in different tools, or can never fire. Parsed schedules are kept.
        """
        return _parse(expression, zone, seconds)

    def fires(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """All fire times in (after, until], in UTC, strictly increasing, found as they are asked
        for. Both bounds are aware."""
        fires = fixed_fires if self._fixed else real_fires
        return fires(self._times, self._zone, _utc(after), _utc(until))

    def next(self, after: datetime) -> datetime:
        """The first fire time after `after`."""
        return next(self.fires(after, after + _FOREVER))

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last of `fires(after, until)`, found from the end: cheap over any window."""
        last = last_fixed if self._fixed else last_real
        return last(self._times, self._zone, _utc(after), _utc(until))

    def count(self, after: datetime, until: datetime) -> int:
        """How many `fires(after, until)` gives, without walking through them."""
        return count_fires(self._times, self._zone, _utc(after), _utc(until), self._fixed)

    def preview(self, after: datetime, n: int = 5) -> list[datetime]:
        """The next `n` fire times, in the schedule's own zone, to be shown to a person."""
        coming = islice(self.fires(after, after + _FOREVER), n)
        return [instant.astimezone(self._zone) for instant in coming]

    def describe(self) -> str:
        """One line for a person: the expression, its zone, and what is easily misread in it."""
        notes = ["fixed wall times" if self._fixed else "every real occurrence"]
        if self._times.days.days is not None and self._times.days.weekdays is not None:
            notes.append("on days that match the day of month or the weekday")
        if self.seconds:
            notes.append("seconds first")
        return f"{self.expression} in {self.zone} ({', '.join(notes)})"


@lru_cache(maxsize=4096)
def _parse(expression: str, zone: str, seconds: bool) -> Schedule:
    fields = fields_of(expression, seconds)
    times = _times_of(expression, fields, seconds)
    _refuse_never(expression, times)
    hours = fields[2 if seconds else 1]
    fixed = not any(item.startswith("*") for item in hours.split(","))
    return Schedule(expression, zone, seconds, times, zone_of(zone), fixed)


def _times_of(expression: str, fields: list[str], seconds: bool) -> CronTimes:
    try:
        cron: croniter[float] = croniter(" ".join(fields), 0.0, second_at_beginning=seconds)
    except (CroniterError, ValueError, TypeError) as error:
        raise ScheduleError(f"schedule {expression!a}: {error}") from error
    minutes, hours, _, _, _, *second = cron.expanded
    return CronTimes(
        days=_days_of(cron, *fields[-3:]),
        hours=_all(hours, range(24)),
        minutes=_all(minutes, range(60)),
        seconds=_all(second[0], range(60)) if second else (0,),
    )


def _days_of(cron: croniter[float], day: str, month: str, weekday: str) -> DayRule:
    _, _, days, months, weekdays, *_ = cron.expanded
    nth = cron.nth_weekday_of_month
    return DayRule(
        months=frozenset(range(1, 13) if month == "*" else _all(months, range(1, 13))),
        days=None if day == "*" else frozenset(_all(days, range(1, 32))) - cron.nearest_weekday,
        nearest=frozenset(cron.nearest_weekday),
        weekdays=_weekdays(weekday, () if nth else _all(weekdays, range(7))),
        nth=frozenset((w, _last(n)) for w, every in nth.items() for n in every),
    )


def _weekdays(text: str, plain: tuple[int, ...]) -> frozenset[int] | None:
    return None if text == "*" else frozenset(plain)


def _all(values: Iterable[Any], everything: Iterable[int]) -> tuple[int, ...]:
    """One expanded field as ascending numbers; the last day of the month is `LAST`."""
    values = list(values)
    return tuple(everything) if "*" in values else tuple(sorted(map(_last, values)))


def _last(value: int | str) -> int:
    return LAST if value == "l" else int(value)


def _refuse_never(expression: str, times: CronTimes) -> None:
    if next(times.after(_SOME_YEAR), None) is None:
        raise ScheduleError(
            f"schedule {expression!a}: no calendar has such a day, it would never fire"
        )
    if times.days.nth and times.days.days is not None and not _every_year(times.days):
        raise ScheduleError(
            f"schedule {expression!a}: a date that not every year has, beside a weekday with "
            "`#` or `L`, is read as 'both' by some tools and never fires there; as 'either' it "
            "is two schedules: write two"
        )


def _every_year(rule: DayRule) -> bool:
    dates = DayRule(rule.months, rule.days, rule.nearest, None, frozenset())
    return any(dates.in_month(_SOME_YEAR.year, month) for month in range(1, 13))


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ScheduleError(f"{moment.isoformat()} has no time zone: pass an aware datetime")
    return moment.astimezone(UTC)
