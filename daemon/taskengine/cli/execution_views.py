"""How executions are shown: columns, JSON objects with a stable schema, and one of them whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

from taskengine.cli import out
from taskengine.cli.words import clean, first_line, instant
from taskengine.model.execution import Attempt, Execution, State
from taskengine.store.logs import Line
from taskengine.telemetry.redact import clean_text

_JSON = ("payload", "cursor", "result")
_ERRORS = ("last_error", "result_error", "error", "traceback")


class Whole(NamedTuple):
    """An execution with its history and its own log."""

    execution: Execution
    history: Sequence[Attempt]
    log: Sequence[Line]


def _because(each: Execution) -> str:
    """What went wrong last, unless it has succeeded since; else how far it is."""
    error = None if each.state is State.SUCCEEDED else each.last_error
    return first_line(clean_text(error or each.progress_message or ""))


COLUMNS = [
    out.Column[Execution]("id", lambda each: each.id, right=True),
    out.Column[Execution]("job", lambda each: each.job),
    out.Column[Execution]("store", lambda each: each.store),
    out.Column[Execution]("state", lambda each: each.state.value),
    out.Column[Execution]("attempt", lambda each: each.attempt, right=True),
    out.Column[Execution]("queue", lambda each: each.queue),
    out.Column[Execution]("run at", lambda each: each.run_at),
    out.Column[Execution]("finished", lambda each: each.finished_at),
    out.Column[Execution]("note", _because),
]

_HISTORY = [
    out.Column[Attempt]("at", lambda each: each.ended_at),
    out.Column[Attempt]("attempt", lambda each: each.attempt, right=True),
    out.Column[Attempt]("move", lambda each: each.move),
    out.Column[Attempt]("reason", lambda each: each.reason),
    out.Column[Attempt]("by", lambda each: each.by),
    out.Column[Attempt]("error", lambda each: first_line(clean_text(each.error or ""))),
]


def shape(each: Execution) -> dict[str, object]:
    """The object of an execution: every field; JSON columns as the JSON that is stored."""
    return {field.name: _value(field.name, getattr(each, field.name)) for field in fields(each)}


def _attempt(each: Attempt) -> dict[str, object]:
    return {field.name: _value(field.name, getattr(each, field.name)) for field in fields(each)}


def _line(each: Line) -> dict[str, object]:
    fields_ = out.Raw(each.fields) if each.fields is not None else None
    return each._asdict() | {"message": clean_text(each.message), "fields": fields_}


def _value(name: str, value: object) -> object:
    if name in _JSON and isinstance(value, str):
        return out.Raw(value)
    return clean_text(value) if name in _ERRORS and isinstance(value, str) else value


def print_whole(whole: Whole, *, as_json: bool) -> None:
    """Row, history and log."""
    if as_json:
        history, log = [_attempt(a) for a in whole.history], [_line(each) for each in whole.log]
        out.line(shape(whole.execution) | {"history": history, "log": log})
        return
    each = whole.execution
    out.put(f"{each.id} {clean(each.job)} · {each.state.value} · attempt {each.attempt}")
    rows = [(title, value) for title, value in _rows(each) if value is not None]
    width = max(len(title) for title, _ in rows)
    for title, value in rows:
        out.put(f"  {title:<{width}}  {value}")
    if whole.history:
        out.put("\nhistory")
        out.table(_HISTORY, whole.history)
    _print_traceback(whole.history)
    if whole.log:
        out.put("\nlog")
        for entry in whole.log:
            extra = f"  {clean(entry.fields)}" if entry.fields not in (None, "{}") else ""
            message = clean(clean_text(entry.message))
            out.put(f"  {instant(entry.at)}  {entry.level:<7}  {message}{extra}")


def _rows(each: Execution) -> list[tuple[str, str | None]]:
    """Every field that is set, as text; stored JSON digit for digit."""
    said = ("id", "job", "state", "attempt")
    return [
        (field.name.replace("_", " "), _text(_value(field.name, getattr(each, field.name))))
        for field in fields(each)
        if field.name not in said
    ]


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, out.Raw):
        return clean(value.text)
    return clean(value) if isinstance(value, str) else out.cell(value)


def _print_traceback(history: Sequence[Attempt]) -> None:
    """The last one: it tells most."""
    text = next((each.traceback for each in reversed(history) if each.traceback), None)
    if text:
        out.put("\nlast traceback")
        for line in clean_text(text).splitlines():
            out.put(f"  {clean(line)}")
