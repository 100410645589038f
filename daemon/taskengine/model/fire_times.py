"""The instants at which wall-clock times fire in a zone, over the changes of its clocks.

Guarantees: two rules, each the same forwards and backwards. *Fixed*: every wall time fires once,
a repeated one at its first occurrence, a skipped one at the first instant after the gap (several
skipped ones together once). *Real*: every occurrence fires, twice in a repeated hour and never in
a gap. All instants are aware, in UTC, and strictly increasing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from taskengine.model.cron_times import CronTimes
from taskengine.model.wall_time import (
    first_change,
    first_instant,
    last_change,
    local,
    offset_at,
    repeats,
    wall_bound,
)

_TICK = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_ROUGH = timedelta(hours=3)


def fixed_fires(
    times: CronTimes, zone: ZoneInfo, after: datetime, until: datetime
) -> Iterator[datetime]:
    """The fires in (after, until] of times whose hours are fixed."""
    last = after
    for wall in times.after(local(zone, after)):
        instant = first_instant(zone, wall)
        if instant > until:
            return
        if instant > last:
            yield instant
            last = instant


def real_fires(
    times: CronTimes, zone: ZoneInfo, after: datetime, until: datetime
) -> Iterator[datetime]:
    """The fires in (after, until] of times whose hours are wildcards: stretch by stretch."""
    start: datetime | None = after
    shown = local(zone, after)
    while start is not None and start < until:
        offset, change = offset_at(zone, start), None
        for wall in times.after(shown):
            instant = wall.replace(tzinfo=after.tzinfo) - offset
            change = first_change(zone, start, min(instant, until))
            if change is not None:
                break
            if instant > until:
                return
            yield instant
            start = instant
        if change is not None:
            # The next stretch begins with the change itself, so a time shown just then counts.
            shown = local(zone, change) - _TICK
        start = change


def last_fixed(
    times: CronTimes, zone: ZoneInfo, after: datetime, until: datetime
) -> datetime | None:
    """The last of `fixed_fires`, found from the end."""
    for wall in times.before(wall_bound(zone, until)):
        instant = first_instant(zone, wall)
        if instant <= until:
            return instant if instant > after else None
    return None


def last_real(
    times: CronTimes, zone: ZoneInfo, after: datetime, until: datetime
) -> datetime | None:
    """The last of `real_fires`, found from the end."""
    end = until
    while end > after:
        wall = next(times.before(local(zone, end)), None)
        instant = wall and wall.replace(tzinfo=after.tzinfo) - offset_at(zone, end)
        start = max(instant, after) if instant else after
        change = last_change(zone, start, end)
        if change is None:
            return instant if instant and instant > after else None
        end = change - _TICK
    return None


def count_fires(
    times: CronTimes, zone: ZoneInfo, after: datetime, until: datetime, fixed: bool
) -> int:
    """How many fires there are in (after, until]; walks only where a clock is changed."""
    fires = fixed_fires if fixed else real_fires
    total, start = 0, after
    while start < until:
        calm = _calm_until(zone, start, until)
        if calm > start:
            total += times.count(local(zone, start), local(zone, calm))
            start = calm
        else:
            rough = min(start + _ROUGH, until)
            total += sum(1 for _ in fires(times, zone, start, rough))
            start = rough
    return total


def _calm_until(zone: ZoneInfo, start: datetime, until: datetime) -> datetime:
    """Up to when wall time and real time go together; `start` itself if they do not now."""
    if repeats(zone, start):
        return start
    change = first_change(zone, start, until)
    return until if change is None else max(start, change - _SECOND)
