"""Definitions in Postgres: what a job's class declared once, and what operators made of it since.

Guarantees: code never overwrites a row; a setting is checked before it is stored; a stored row that
is wrong all the same (written by hand, or valid under another configuration) can always be read:
`problem` says what is wrong with it. A new schedule, and enabling, begin now and not in the past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import NamedTuple

from asyncpg import Record

from taskengine.errors import (
    InvalidSetting,
    ScheduleError,
    TaskEngineError,
    UnknownJob,
    UnknownQueue,
    listing,
    nearest,
)
from taskengine.model.definition import (
    SETTINGS,
    Definition,
    JobSettings,
    check_schedule,
    check_setting,
)
from taskengine.model.payload import JsonValue, decode, encode
from taskengine.store.pool import Connection
from taskengine.store.statements import sql

_FLAGS = frozenset({"schedule_seconds", "is_enabled", "notify_on_failure", "notify_sms"})
_TEXTS = frozenset({"display_name", "queue", "time_zone"})
_SCHEDULE = frozenset({"schedule", "schedule_seconds", "time_zone", "scope"})


class LastFire(NamedTuple):
    """The last execution that the scheduler made of a job."""

    job: str
    execution_id: int
    state: str
    fire_time: datetime


async def register(
    c: Connection, jobs: Iterable[tuple[str, JobSettings]], now: datetime | None = None
) -> list[str]:
    """Insert what is missing of (name, settings), in one statement; the names that are new."""
    rows: list[JsonValue] = [{"name": name, **_stored(settings)} for name, settings in jobs]
    return [r["name"] for r in await c.fetch(sql("definitions/register"), encode(rows), now)]


async def all_(c: Connection) -> list[Definition]:
    """Every definition, by name."""
    return [_definition(r) for r in await c.fetch(sql("definitions/list"), None, False)]


async def get(c: Connection, name: str) -> Definition | None:
    row = await c.fetchrow(sql("definitions/list"), name, False)
    return _definition(row) if row else None


async def scheduled(c: Connection) -> list[Definition]:
    """The enabled ones with a schedule, marked as broken or not: what the scheduler looks at."""
    return [_definition(r) for r in await c.fetch(sql("definitions/list"), None, True)]


async def set_(
    c: Connection,
    name: str,
    changes: Mapping[str, object],
    queues: Sequence[str],
    now: datetime | None = None,
) -> Definition:
    """Change some settings; the definition as it is then. `queues`: the listed ones.

    Raises `UnknownJob`, `InvalidSetting`, `ScheduleError`, `UnknownQueue`, `PayloadError` (config);
    nothing is changed then. An error mark goes away as soon as it is no longer deserved.
    """
    before = await get(c, name)
    if before is None:
        raise UnknownJob(name, [each.name for each in await all_(c)])
    check_changes(before.settings, changes, queues)
    await c.execute(sql("definitions/set"), name, encode(dict(changes)), now)
    after = await get(c, name)
    if after is None:
        raise UnknownJob(name)
    if after.error is None or problem(after.settings, queues) is not None:
        return after
    await mark_error(c, name, None)
    return replace(after, error=None)


async def mark_error(c: Connection, name: str, error: str | None) -> bool:
    """Mark the definition as one to be skipped (None: clear it); whether that changed anything."""
    return await c.fetchval(sql("definitions/mark_error"), name, error) is not None


async def advance(
    c: Connection, definition: Definition, fired_until: datetime, queues: Sequence[str]
) -> bool:
    """Move `fired_until` from what was read; False: somebody else did it, or is at it.

    The row stays locked until the transaction ends, so the inserts of a fire never race.
    """
    read = (definition.name, definition.fired_until, definition.schedule_version)
    row = await c.fetchval(sql("definitions/advance"), *read, fired_until, queues)
    return row is not None


async def keep_up(c: Connection, idle: Sequence[Definition], fired_until: datetime) -> None:
    """Move `fired_until` of definitions that had nothing to fire."""
    names = [each.name for each in idle]
    read = [each.fired_until for each in idle]
    versions = [each.schedule_version for each in idle]
    await c.execute(sql("definitions/keep_up"), names, read, versions, fired_until)


async def unknown(c: Connection, known: Sequence[str]) -> list[str]:
    """Scheduled jobs that neither the caller nor any living daemon knows."""
    return [r["name"] for r in await c.fetch(sql("definitions/unknown"), known)]


async def last_fires(c: Connection, jobs: Sequence[str]) -> list[LastFire]:
    """The last scheduled execution of each job that uses the engine's keys."""
    return [LastFire(*r.values()) for r in await c.fetch(sql("definitions/last_fires"), jobs)]


def problem(settings: JobSettings, queues: Sequence[str]) -> TaskEngineError | None:
    """Why a stored definition has to be skipped: its queue, or its schedule."""
    if settings.queue not in queues:
        return UnknownQueue(settings.queue, queues)
    if settings.schedule is None:
        return None
    try:
        check_schedule(
            settings.schedule, settings.time_zone, settings.scope, seconds=settings.schedule_seconds
        )
    except (ScheduleError, InvalidSetting) as error:
        return error
    return None


def check_changes(
    settings: JobSettings, changes: Mapping[str, object], queues: Sequence[str]
) -> None:
    """Refuse what may not be set; settings that are not changed are not looked at."""
    for name, value in changes.items():
        _check_type(name, value)
        check_setting(name, value)
    queue = changes.get("queue")
    if isinstance(queue, str) and queue not in queues:
        raise UnknownQueue(queue, queues)
    merged = {name: changes.get(name, getattr(settings, name)) for name in _SCHEDULE}
    if merged["schedule"] is not None and _SCHEDULE & changes.keys():
        check_schedule(
            str(merged["schedule"]),
            str(merged["time_zone"]),
            str(merged["scope"]),
            seconds=bool(merged["schedule_seconds"]),
        )


def _check_type(name: str, value: object) -> None:
    if name not in SETTINGS:
        hint = nearest(name, SETTINGS)
        raise InvalidSetting(f"unknown setting {name!r}{hint} {listing(SETTINGS, len(SETTINGS))}")
    if name in _FLAGS and not isinstance(value, bool):
        raise InvalidSetting(f"{name} = {value!r}: true or false")
    if name in _TEXTS and not (isinstance(value, str) and value):
        raise InvalidSetting(f"{name} = {value!r}: some text")
    if name == "schedule" and not (value is None or isinstance(value, str)):
        raise InvalidSetting(f"schedule = {value!r}: a cron expression, or null for none")
    if name == "config" and not isinstance(value, Mapping):
        raise InvalidSetting(f"config = {value!r}: a JSON object")


def _stored(settings: JobSettings) -> dict[str, JsonValue]:
    values: dict[str, JsonValue] = asdict(settings)
    return values


def _definition(row: Record) -> Definition:
    """A row as it stands: its settings are not checked, or one bad row could not even be shown."""
    settings = object.__new__(JobSettings)
    for name in SETTINGS:
        value = decode(row[name]) if name == "config" else row[name]
        object.__setattr__(settings, name, value)
    return Definition(
        row["name"], settings, row["schedule_version"], row["fired_until"], row["error"]
    )
