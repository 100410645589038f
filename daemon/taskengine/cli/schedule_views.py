"""Schedules for the command line. A broken one is shown with its error, not left out."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from taskengine.cli import out
from taskengine.cli.failure import NotFound
from taskengine.client import TaskEngine
from taskengine.errors import TaskEngineError, UnknownJob
from taskengine.insight.schedules import ScheduleView, schedules
from taskengine.store import definitions, misses
from taskengine.store.misses import Miss


class Fire(NamedTuple):
    """A fire time to come; `local` is the same instant on its zone's wall clock."""

    job: str
    fire_time: datetime
    zone: str
    local: str
    stores: tuple[str, ...]


COLUMNS = [
    out.Column[ScheduleView]("job", lambda each: each.job),
    out.Column[ScheduleView]("schedule", lambda each: each.schedule),
    out.Column[ScheduleView]("zone", lambda each: each.time_zone),
    out.Column[ScheduleView]("enabled", lambda each: each.is_enabled),
    out.Column[ScheduleView]("last fire", lambda each: each.last.fire_time if each.last else None),
    out.Column[ScheduleView]("became", lambda each: each.last.state if each.last else None),
    out.Column[ScheduleView]("next fire", lambda each: each.next[0].at if each.next else None),
    out.Column[ScheduleView]("missed 7 d", lambda each: each.missed, right=True),
    out.Column[ScheduleView]("problem", lambda each: each.error),
]

FIRES = [
    out.Column[Fire]("fire time", lambda each: each.fire_time),
    out.Column[Fire]("job", lambda each: each.job),
    out.Column[Fire]("on the clock", lambda each: f"{each.local} {each.zone}"),
    out.Column[Fire]("stores", lambda each: ", ".join(each.stores)),
]


MISSED = [
    out.Column[Miss]("fire time", lambda each: each.fire_time),
    out.Column[Miss]("job", lambda each: each.job),
    out.Column[Miss]("store", lambda each: each.type_num),
    out.Column[Miss]("reason", lambda each: each.reason),
    out.Column[Miss]("recorded", lambda each: each.recorded_at),
]


async def read(engine: TaskEngine) -> list[ScheduleView]:
    """Every schedule."""
    return await schedules(engine.parts)


async def upcoming(engine: TaskEngine, job: str | None, count: int) -> list[Fire]:
    """The next fire times of one schedule or of all, in the order of time.

    Raises `UnknownJob`, `NotFound` for a job without a schedule, and says of a broken schedule that
    was asked for what is wrong with it.
    """
    views = await schedules(engine.parts, count)
    if job is not None:
        views = [await _only(engine, job, views)]
    coming = [_fire(each, i) for each in views for i in range(len(each.next))]
    return sorted(coming, key=lambda fire: (fire.fire_time, fire.job))[:count]


async def missed(engine: TaskEngine, job: str | None, limit: int) -> list[Miss]:
    """Fire times that did not run, of one job or of all."""
    async with engine.parts.store.connection() as c:
        return await misses.list_(c, job, limit)


async def _only(engine: TaskEngine, job: str, views: list[ScheduleView]) -> ScheduleView:
    found = {each.job: each for each in views}
    if job not in found:
        async with engine.parts.store.connection() as c:
            known = await definitions.get(c, job)
        raise UnknownJob(job, found) if known is None else NotFound(f"job {job!r} has no schedule")
    if found[job].error is not None:
        raise TaskEngineError(f"{job!r} does not fire: {found[job].error}")
    if not found[job].is_enabled:
        out.note(f"{job} is disabled")
    return found[job]


def _fire(view: ScheduleView, number: int) -> Fire:
    coming = view.next[number]
    return Fire(
        view.job, coming.at, coming.zone, f"{coming.local:%Y-%m-%d %H:%M:%S}", coming.stores
    )


def shape(each: ScheduleView) -> dict[str, object]:
    """The JSON object of a schedule."""
    return {
        "job": each.job,
        "queue": each.queue,
        "schedule": each.schedule,
        "time_zone": each.time_zone,
        "enabled": each.is_enabled,
        "known": each.is_known,
        "fired_until": each.fired_until,
        "last_fire": each.last.fire_time if each.last else None,
        "last_execution": each.last.execution_id if each.last else None,
        "last_state": each.last.state if each.last else None,
        "next_fire": each.next[0].at if each.next else None,
        "missed_7d": each.missed,
        "error": each.error,
    }


def missed_shape(each: Miss) -> dict[str, object]:
    """The JSON object of a fire time that did not run."""
    return {
        "job": each.job,
        "store": each.type_num,
        "fire_time": each.fire_time,
        "reason": each.reason,
        "execution_id": each.execution_id,
        "recorded_at": each.recorded_at,
    }
