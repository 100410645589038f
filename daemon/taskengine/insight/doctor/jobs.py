"""Jobs and schedules: what rows say and code does not, and what should have fired and did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from taskengine.errors import InvalidSetting, ScheduleError
from taskengine.insight.doctor.finding import Finding, finding
from taskengine.insight.problems import SCHEDULER_SECONDS
from taskengine.insight.schedules import next_fires
from taskengine.insight.words import span
from taskengine.lifecycle import definitions as defined
from taskengine.lifecycle.parts import Parts
from taskengine.model.definition import Definition
from taskengine.model.surroundings import StoreInfo
from taskengine.store import definitions, engine, stores, workers

_AHEAD = timedelta(seconds=60)


async def differences(parts: Parts) -> list[Finding]:
    """Rows against code; nothing where no module is named, for then nothing is known here."""
    if not parts.config.jobs.modules:
        return []
    diff = await defined.diff(parts)
    told = []
    changed = sorted({each.job for each in diff.changed})
    for job in changed:
        settings = [each.setting for each in diff.changed if each.job == job]
        text = f"job {job!r} runs by its row, which differs from the code in {', '.join(settings)}"
        told.append(finding("job.differs", text, job))
    for job in diff.missing:
        text = f"job {job!r} has no row yet: no daemon was started since it was written"
        told.append(finding("job.unregistered", text, job))
    return told


async def unknown_schedules(parts: Parts) -> list[Finding]:
    """Schedules whose job no daemon knows."""
    async with parts.store.connection() as c:
        living = await workers.living(c)
        names = await definitions.unknown(c, []) if living else []
    return [
        finding("schedule.nobody_knows", f"{name!r} does not fire: no daemon knows the job", name)
        for name in names
    ]


async def schedules(parts: Parts) -> list[Finding]:
    """Schedules that are ahead of the clock, or late."""
    async with parts.store.connection() as c:
        now = await engine.now(c)
        found = await definitions.all_(c)
        active = await stores.active(c)
        nobody = set(await definitions.unknown(c, []))
        living = [w for w in await workers.living(c) if now - w.started_at > _patience()]
    told = [*_ahead(found, now)]
    if living and parts.config.scheduler.enabled:
        known = [each for each in found if each.name not in nobody]
        told += _late(known, active, now)
    return told


def _patience() -> timedelta:
    return timedelta(seconds=SCHEDULER_SECONDS)


def _fires(each: Definition) -> bool:
    return each.settings.schedule is not None and each.settings.is_enabled and each.error is None


def _ahead(found: Sequence[Definition], now: datetime) -> Iterator[Finding]:
    for each in filter(_fires, found):
        if each.fired_until > now + _AHEAD:
            text = f"{each.name!r} does not fire until {each.fired_until:%Y-%m-%d %H:%M:%SZ}: its "
            yield finding("schedule.ahead", f"{text}fired_until is ahead of the clock", each.name)


def _late(
    found: Sequence[Definition], active: Sequence[StoreInfo], now: datetime
) -> Iterator[Finding]:
    for each in filter(_fires, found):
        try:
            fires = next_fires(each, active, 1, each.fired_until)
        except (ScheduleError, InvalidSetting):
            continue
        late = [now - fire.at for fire in fires if now - fire.at > _patience()]
        if late:
            text = f"{each.name!r} should have fired {span(max(late).total_seconds())} ago"
            yield finding("schedule.late", text, each.name)


def unloadable(error: str) -> Finding:
    """The code could not be loaded here, so nothing is known of it."""
    return finding("job.unloadable", f"the code of the jobs cannot be loaded: {error}")
