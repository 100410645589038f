"""Where wall clocks meet real time: offsets, their changes, and what happens to a time in between.

Guarantees: every answer is an aware UTC datetime; a wall time that a change of the clock repeats
stands for its first occurrence, one that it skips for the first instant after the gap.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from taskengine.errors import ScheduleError, nearest

# Changes lie at least this far apart (Morocco's around Ramadan are a month apart); one probe in
# each stretch of this length finds them all.
_STRIDE = timedelta(days=7)
_SECOND = timedelta(seconds=1)

_HOSTS_OWN = {"localtime", "posixrules"}


def zone_of(name: str) -> ZoneInfo:
    """The IANA zone of that name; `ScheduleError` with the nearest known one otherwise."""
    if name in _HOSTS_OWN:
        raise ScheduleError(f"time zone {name!r} is another one on each host: use an IANA name")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = nearest(name, available_timezones())
        raise ScheduleError(
            f"unknown time zone {name!a}{hint or ': use an IANA name such as America/New_York'}"
        ) from error


def offset_at(zone: ZoneInfo, instant: datetime) -> timedelta:
    """Local time minus UTC at that instant."""
    return instant.astimezone(zone).utcoffset() or timedelta(0)


def local(zone: ZoneInfo, instant: datetime) -> datetime:
    """What the clock on the wall shows at that instant, naive."""
    return instant.astimezone(zone).replace(tzinfo=None)


def first_instant(zone: ZoneInfo, wall: datetime) -> datetime:
    """When the clock first shows `wall` (naive), or first shows a later time than a skipped one."""
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    if local(zone, instant) == wall:
        return instant
    early = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return first_change(zone, early, instant) or instant


def wall_bound(zone: ZoneInfo, instant: datetime) -> datetime:
    """A wall time that no clock of the zone had gone past by that instant.

    Mostly what the clock shows; while it repeats an hour, a time past the end of that hour.
    """
    shown = instant.astimezone(zone)
    before = shown.replace(fold=0).utcoffset() or timedelta(0)
    after = shown.utcoffset() or timedelta(0)
    return shown.replace(tzinfo=None, fold=0) + (before - after)


def repeats(zone: ZoneInfo, instant: datetime) -> bool:
    """Whether the clock shows at that instant what it has shown before."""
    return instant.astimezone(zone).fold == 1


def first_change(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The first instant in (after, until] whose offset is not the one at `after`."""
    offset, start = offset_at(zone, after), after
    while start < until:
        end = min(start + _STRIDE, until)
        if offset_at(zone, end) != offset:
            return _between(zone, start, end)
        start = end
    return None


def last_change(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The last instant in (after, until] at which the offset became the one at `until`."""
    offset, end = offset_at(zone, until), until
    while end > after:
        start = max(end - _STRIDE, after)
        if offset_at(zone, start) != offset:
            return _between(zone, start, end)
        end = start
    return None


def _between(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The change between two instants of different offsets; clocks change at whole seconds."""
    offset = offset_at(zone, low)
    low, span = low.replace(microsecond=0), math.ceil((high - low).total_seconds()) + 1
    same = bisect_left(
        range(span + 1), True, key=lambda n: offset_at(zone, low + n * _SECOND) != offset
    )
    return low + same * _SECOND
