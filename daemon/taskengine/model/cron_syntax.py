"""Which cron expressions are taken, and what is wrong with the others.

Guarantees: an expression that passes means the same to everybody who reads it. What tools read
differently (seconds at either end, `?`, wrapped ranges, steps that never step, random fields) is
refused with a hint. Syntax only: whether it ever fires is found out by trying, in `schedule`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from taskengine.errors import ScheduleError

NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class Field(NamedTuple):
    """One field: its name, its bounds, and the words that stand for numbers in it."""

    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()


_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SECOND = Field("second", 0, 59)
_FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, _MONTHS),
    Field("day of week", 0, 6, _DAYS),
)

_ITEM = re.compile(
    r"(?:\*|(?P<low>[a-z]+|\d+)(?:-(?P<high>[a-z]+|\d+))?)(?:/(?P<step>\d+))?", re.ASCII
)
_SINGLE = re.compile(r"^([a-z0-9]+)-\1$", re.ASCII)
_SPECIAL_DAY = re.compile(r"l|\d{1,2}w", re.ASCII)
_SPECIAL_WEEKDAY = re.compile(r"(?:[0-7]|sun|mon|tue|wed|thu|fri|sat)#[1-5]|l[0-7]", re.ASCII)


def fields_of(expression: str, seconds: bool = False) -> list[str]:
    """The five fields in lower case; six with `seconds`, which stand first (as Quartz has them).

    Raises `ScheduleError` with a hint.
    """
    if not expression.isascii() or not expression.isprintable():
        raise _error(expression, "it holds a line break, a control character or a non-ASCII one")
    text = expression.strip().lower()
    if text.startswith("@"):
        return _named(expression, text, seconds)
    parts = text.split()
    fields = (_SECOND, *_FIELDS) if seconds else _FIELDS
    if len(parts) != len(fields):
        hint = "; `?` is written *" if "?" in parts else ""
        raise _error(expression, _count_hint(len(parts), seconds) + hint)
    for part, field in zip(parts, fields, strict=True):
        _check_field(expression, part, field)
    return [_normal(part) for part in parts]


def _normal(part: str) -> str:
    """The field as croniter reads it rightly: it takes `5-5` for every value there is.

    And `*/1` is `*`; only the latter leaves the day to the other day field.
    """
    items = ["*" if item == "*/1" else _SINGLE.sub(r"\1", item) for item in part.split(",")]
    return ",".join(items)


def _named(expression: str, text: str, seconds: bool) -> list[str]:
    if text not in NAMES:
        raise _error(expression, f"the names are {', '.join(NAMES)}")
    parts = NAMES[text].split()
    return ["0", *parts] if seconds else parts


def _count_hint(count: int, seconds: bool) -> str:
    if seconds:
        wanted = "with seconds it has six fields: second minute hour day month weekday"
    else:
        wanted = "it has five fields: minute hour day month weekday"
    hint = "; seconds need the schedule's seconds flag" if count == 6 and not seconds else ""
    return f"{wanted}; this one has {count}{hint}"


def _check_field(expression: str, part: str, field: Field) -> None:
    special = {"day of month": _SPECIAL_DAY, "day of week": _SPECIAL_WEEKDAY}.get(field.name)
    items = part.split(",")
    marked = [item for item in items if special and special.fullmatch(item)]
    if field.name == "day of week" and marked and len(marked) != len(items):
        raise _error(expression, "plain weekdays beside `#` or `L`: write two schedules")
    for item in items:
        if item not in marked and (problem := _item_problem(item, field)):
            raise _error(expression, f"{field.name} {item!r}: {problem}")


def _item_problem(item: str, field: Field) -> str | None:
    found = _ITEM.fullmatch(item)
    if found is None or re.match(r"[hr]\b", item):
        return _unread(item, field)
    low = _number(found["low"], field, False)
    high = _number(found["high"], field, True)
    if low is None or high is None:
        return f"use {field.low} to {field.high}" + _words(field)
    if found["high"] and high < low:
        parts = f"{found['low']}-{field.high},{field.low}-{found['high']}"
        return f"the range runs backwards: write {parts}"
    last = high if found["high"] else field.high
    return _step_problem(found["step"], low, last)


def _unread(item: str, field: Field) -> str:
    if item == "?":
        return "write *"
    if re.match(r"[hr]\b", item):
        return "random and hashed fields would change on every start: choose a number"
    return "not understood; use *, 5, 1-5, */5, 1-30/5, or several with commas" + _words(field)


def _step_problem(step: str | None, low: int, last: int) -> str | None:
    if step is None:
        return None
    if int(step) == 0:
        return "a step of 0 never ends"
    if low + int(step) > last:
        return f"the step is larger than the range {low}-{last}: it would only ever fire at {low}"
    return None


def _number(text: str | None, field: Field, ending: bool) -> int | None:
    """The number that a bound stands for; Sunday ends a range as 7. None: out of bounds."""
    if text is None:
        return field.low
    if text.isdigit():
        number = int(text)
        top = field.high + (field.name == "day of week")
        return number if field.low <= number <= top else None
    if text not in field.words:
        return None
    number = field.words.index(text) + field.low
    return 7 if ending and text == "sun" else number


def _words(field: Field) -> str:
    return f", or {field.words[0]} to {field.words[-1]}" if field.words else ""


def _error(expression: str, problem: str) -> ScheduleError:
    return ScheduleError(f"schedule {expression!a}: {problem}")
