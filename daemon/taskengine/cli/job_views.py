"""Definitions for the command line: read, changed, shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from taskengine.cli import out
from taskengine.cli.words import NONE, clean
from taskengine.client import TaskEngine
from taskengine.errors import InvalidSetting, PayloadError, UnknownJob
from taskengine.lifecycle.definitions import Diff, Difference
from taskengine.model.definition import SETTINGS, Definition
from taskengine.model.payload import JsonValue, decode, encode
from taskengine.model.registry import check_verify
from taskengine.store import definitions

# Settings whose value is the text as it stands; the others are read as JSON.
_TEXTS = frozenset(
    {
        "display_name",
        "queue",
        "scope",
        "schedule",
        "time_zone",
        "missed",
        "when_held",
        "on_interrupt",
    }
)


def _problem(each: Definition) -> str:
    return each.error or ("" if each.settings.is_enabled else "disabled")


COLUMNS = [
    out.Column[Definition]("job", lambda each: each.name),
    out.Column[Definition]("queue", lambda each: each.settings.queue),
    out.Column[Definition]("scope", lambda each: each.settings.scope),
    out.Column[Definition]("schedule", lambda each: each.settings.schedule),
    out.Column[Definition](
        "zone", lambda each: each.settings.time_zone if each.settings.schedule else ""
    ),
    out.Column[Definition]("timeout", lambda each: f"{each.settings.timeout} s", right=True),
    out.Column[Definition]("attempts", lambda each: each.settings.max_attempts, right=True),
    out.Column[Definition]("enabled", lambda each: each.settings.is_enabled),
    out.Column[Definition]("problem", lambda each: each.error),
]

_DIFF = [
    out.Column[Difference]("job", lambda each: each.job),
    out.Column[Difference]("setting", lambda each: each.setting),
    out.Column[Difference]("class says", lambda each: _text(each.code)),
    out.Column[Difference]("row says", lambda each: _text(each.row)),
]


async def read_all(engine: TaskEngine) -> list[Definition]:
    """Every definition."""
    async with engine.parts.store.connection() as c:
        return await definitions.all_(c)


async def read_one(engine: TaskEngine, name: str) -> Definition:
    """Raises `UnknownJob` with the nearest name."""
    found = {each.name: each for each in await read_all(engine)}
    if name not in found:
        raise UnknownJob(name, found)
    return found[name]


async def change(engine: TaskEngine, name: str, values: Mapping[str, object]) -> Definition:
    """Change settings; the definition as it is then."""
    queues = engine.parts.config.engine.queues
    if values.get("on_interrupt") == "verify":
        _can_be_asked(engine, name)
    async with engine.parts.store.connection() as c:
        return await definitions.set_(c, name, values, queues)


def _can_be_asked(engine: TaskEngine, name: str) -> None:
    handle = engine.parts.registry.get(name)
    if handle is None:
        raise InvalidSetting(
            f"on_interrupt = 'verify': whether {name!r} has a verify, only its code says, and no "
            "module of [jobs] modules here has that job"
        )
    check_verify(handle, "verify")


async def switch(engine: TaskEngine, names: Sequence[str], *, on: bool) -> list[Definition]:
    """Enable or disable; none of them where one is unknown."""
    known = [each.name for each in await read_all(engine)]
    for name in names:
        if name not in known:
            raise UnknownJob(name, known)
    return [await change(engine, name, {"is_enabled": on}) for name in dict.fromkeys(names)]


def parse_changes(words: Sequence[str]) -> dict[str, object]:
    """`timeout=600` and the like; whether the values are within bounds is the store's question."""
    changes: dict[str, object] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator:
            raise InvalidSetting(f"{word!r}: write SETTING=VALUE")
        if name in changes:
            raise InvalidSetting(f"{name} is given twice")
        changes[name] = _value(name, text)
    return changes


def _value(name: str, text: str) -> object:
    if name == "schedule" and text in ("", "null"):
        return None
    if name in _TEXTS:
        return text
    try:
        return decode(text)
    except PayloadError:
        return text  # the check of the setting says what would be right


def shape(each: Definition) -> dict[str, object]:
    """The JSON object of a definition: its settings, and what the scheduler remembers."""
    return {
        "name": each.name,
        **{name: _json(getattr(each.settings, name)) for name in SETTINGS},
        "schedule_version": each.schedule_version,
        "fired_until": each.fired_until,
        "error": each.error,
    }


def print_one(each: Definition, *, as_json: bool, only: Collection[str] = SETTINGS) -> None:
    """A definition's settings, one a line."""
    if as_json:
        out.line(shape(each))
        return
    problem = _problem(each)
    out.put(clean(each.name) + (f" · {clean(problem)}" if problem else ""))
    for name in SETTINGS:
        if name in only:
            out.put(f"  {name:<20}{clean(_text(getattr(each.settings, name)))}")


def print_diff(found: Diff, *, as_json: bool) -> None:
    """Differences as data; jobs that only one side knows as data with --json, else as messages."""
    out.show(
        found.changed,
        _DIFF,
        _difference,
        as_json=as_json,
        nothing="no setting differs",
    )
    for kind, names in (("missing", found.missing), ("foreign", found.foreign)):
        for name in names:
            if as_json:
                out.line({"job": name, "difference": kind})
            elif kind == "missing":
                out.note(f"{name}: has no row yet; a daemon writes it when it starts")
            else:
                out.note(f"{name}: has a row, but no class in [jobs] modules here")


def _difference(each: Difference) -> dict[str, object]:
    return {
        "job": each.job,
        "difference": "changed",
        "setting": each.setting,
        "class": _json(each.code),
        "row": _json(each.row),
    }


def _json(value: object) -> object:
    """`config` digit for digit."""
    return out.Raw(encode(dict(value))) if isinstance(value, Mapping) else value


def _text(value: object) -> str:
    if value is None:
        return NONE
    if isinstance(value, Mapping):
        config: dict[str, JsonValue] = dict(value)
        return encode(config)
    return str(value).lower() if isinstance(value, bool) else str(value)
