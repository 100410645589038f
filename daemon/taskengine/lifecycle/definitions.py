"""The definitions of this daemon's jobs: registered, judged, compared with the code.

Guarantees: a definition that cannot be used (its queue is not listed, its schedule cannot be
evaluated, or its job does not run without a payload) is marked, told and skipped; the daemon starts
and the others go on; the mark goes away when the definition is right again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taskengine.errors import ScheduleError, TaskEngineError, UnknownQueue
from taskengine.lifecycle.parts import Parts
from taskengine.model.definition import SETTINGS, Definition
from taskengine.store import definitions
from taskengine.store.pool import Connection
from taskengine.telemetry.events import emit


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting whose row says something else than the code. The row wins."""

    job: str
    setting: str
    code: object
    row: object


@dataclass(frozen=True, slots=True)
class Diff:
    """`missing` jobs have no row yet; the jobs of `foreign` rows are not known here."""

    changed: list[Difference]
    missing: list[str]
    foreign: list[str]


async def sync(parts: Parts) -> list[str]:
    """At the daemon's start: insert the rows that are missing, and judge all; the new names."""
    async with parts.store.connection() as c:
        jobs = [(handle.name, handle.settings) for handle in parts.registry]
        added = await definitions.register(c, jobs)
        emit("job.registered", count=len(jobs), added=len(added))
        await judge(c, parts, await definitions.all_(c), tell_all=True)
    return added


async def judge(
    c: Connection, parts: Parts, found: Iterable[Definition], *, tell_all: bool = False
) -> list[Definition]:
    """Those that can be used. Marks and clears; one event for each change (`tell_all`: each mark).

    A definition of somebody else's job is marked where it is wrong, and never cleared: what only
    its own daemon sees is not ours to judge.
    """
    good = []
    for definition in found:
        problem = problem_of(parts, definition)
        if problem is None:
            good.append(definition)
            if definition.error is not None and parts.registry.get(definition.name):
                await _clear(c, definition)
        elif await _mark(c, definition, problem) or tell_all:
            _tell(definition, problem)
    return good


def problem_of(parts: Parts, definition: Definition) -> TaskEngineError | None:
    """Why the definition has to be skipped; None: it is fine as far as this daemon can see."""
    found = definitions.problem(definition.settings, parts.config.engine.queues)
    handle = parts.registry.get(definition.name)
    if found is not None or handle is None or definition.settings.schedule is None:
        return found
    try:
        handle.dump({})
    except Exception as error:  # the user's model: whatever it raises, the job would not run
        return ScheduleError(f"a scheduled job runs without a payload, but this one needs: {error}")
    return None


async def diff(parts: Parts) -> Diff:
    """Where the rows differ from the code, by job and setting."""
    async with parts.store.connection() as c:
        rows = {each.name: each.settings for each in await definitions.all_(c)}
    changed = [
        Difference(handle.name, setting, code, row)
        for handle in sorted(parts.registry, key=lambda each: each.name)
        if handle.name in rows
        for setting in SETTINGS
        if (code := getattr(handle.settings, setting))
        != (row := getattr(rows[handle.name], setting))
    ]
    known = set(parts.registry.names)
    return Diff(changed, sorted(known - rows.keys()), sorted(rows.keys() - known))


async def _mark(c: Connection, definition: Definition, problem: TaskEngineError) -> bool:
    text = str(problem)
    return definition.error != text and await definitions.mark_error(c, definition.name, text)


async def _clear(c: Connection, definition: Definition) -> None:
    if await definitions.mark_error(c, definition.name, None):
        emit("job.mended", task=definition.name)


def _tell(definition: Definition, problem: TaskEngineError) -> None:
    if isinstance(problem, UnknownQueue):
        emit("job.skipped", task=definition.name, reason=problem)
    else:
        emit("schedule.broken", task=definition.name, error=problem)
