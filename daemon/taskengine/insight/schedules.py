"""The schedules as an operator reads them: what fires next, what fired last, what did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from taskengine.errors import InvalidSetting, ScheduleError
from taskengine.lifecycle.definitions import problem_of
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.slots import clocks
from taskengine.model.definition import Definition
from taskengine.model.schedule import Schedule
from taskengine.model.surroundings import StoreInfo
from taskengine.store import definitions, engine, misses
from taskengine.store import stores as all_stores
from taskengine.store.definitions import LastFire

_MISSES_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class NextFire:
    """A coming fire time: `at` in UTC, `local` in `zone`; `stores`: type_nums, empty if global."""

    at: datetime
    local: datetime
    zone: str
    stores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """One schedule. `missed`: fire times of the last 7 days that did not run. `last` is None where
    nothing fired yet, and for jobs that make their own keys."""

    job: str
    queue: str
    schedule: str
    time_zone: str
    is_enabled: bool
    error: str | None
    fired_until: datetime
    next: tuple[NextFire, ...]
    last: LastFire | None
    missed: int
    is_known: bool


async def schedules(parts: Parts, n: int = 1) -> list[ScheduleView]:
    """Every definition with a schedule, enabled or not, each with its next `n` fire times.

    A broken one is shown with its error, not left out.
    """
    async with parts.store.connection() as c:
        found = [each for each in await definitions.all_(c) if each.settings.schedule is not None]
        stores = await all_stores.active(c)
        now = await engine.now(c)
        lasts = {each.job: each for each in await definitions.last_fires(c, _names(found))}
        missed = await misses.counts(c, now - _MISSES_FOR)
        unknown = set(await definitions.unknown(c, parts.registry.names))
    return [
        ScheduleView(
            job=each.name,
            queue=each.settings.queue,
            schedule=each.settings.schedule or "",
            time_zone=each.settings.time_zone,
            is_enabled=each.settings.is_enabled,
            error=_error(parts, each),
            fired_until=each.fired_until,
            next=tuple(_coming(each, stores, n, now)),
            last=lasts.get(each.name),
            missed=missed.get(each.name, 0),
            is_known=each.name not in unknown,
        )
        for each in found
    ]


def next_fires(
    definition: Definition, stores: Sequence[StoreInfo], n: int, after: datetime
) -> list[NextFire]:
    """The next `n` fire times of each clock that the schedule follows, in their order.

    `ScheduleError` or `InvalidSetting` for a schedule that cannot be evaluated.
    """
    settings = definition.settings
    fires = []
    for zone, targets in clocks(settings, stores).items():
        type_nums = tuple(each.type_num for each in targets if each is not None)
        if not targets:
            continue
        schedule = Schedule.parse(settings.schedule or "", zone, settings.schedule_seconds)
        for local in schedule.preview(after, n):
            at = local.astimezone(after.tzinfo)
            fires.append(NextFire(at, local, zone, type_nums))
    return sorted(fires, key=lambda each: each.at)


def _coming(
    definition: Definition, stores: Sequence[StoreInfo], n: int, now: datetime
) -> list[NextFire]:
    """As `next_fires`; nothing for a schedule that does not fire as it stands."""
    if not definition.settings.is_enabled:
        return []
    try:
        return next_fires(definition, stores, n, max(now, definition.fired_until))
    except (ScheduleError, InvalidSetting):
        return []


def _error(parts: Parts, definition: Definition) -> str | None:
    problem = problem_of(parts, definition)
    return definition.error if problem is None else str(problem)


def _names(found: Sequence[Definition]) -> list[str]:
    return [each.name for each in found]
