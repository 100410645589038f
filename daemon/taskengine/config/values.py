"""The kinds of values that keys of the configuration hold, and how text becomes one.

Guarantees: every duration is a finite float of seconds, written as a number or as "90s", "15m",
"12h", "30d", "2w" (also combined, "1d12h"); a boolean is never taken for a number; a list may be
written as one text with commas (for environment variables). No error repeats the value.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

_UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])\s*")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_NAME = re.compile(r"[a-z0-9_-]{1,50}")

DAY = _UNITS["d"]


class Section(BaseModel):
    """A frozen table of the configuration; unknown keys are errors, values never in their text."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )


def duration(value: Any) -> Any:
    """Seconds of "30d", "1d12h", "90", 90; anything else is left to the type's own check."""
    if not isinstance(value, str):
        return number(value)
    text = value.strip().lower()
    if _NUMBER.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text):
        raise ValueError('must be seconds, or a text such as "90s", "15m", "12h", "30d"')
    return sum(float(amount) * _UNITS[unit] for amount, unit in parts)


def number(value: Any) -> Any:
    """Refuse true and false, which would pass for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")  # noqa: TRY004  pydantic's way
    return value


def split(value: Any) -> Any:
    """A list from one text: JSON (`["a", "b"]`) or with commas (`a, b`)."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return from_json(value)
    return [part for part in (each.strip() for each in value.split(",")) if part]


def from_json(text: str) -> Any:
    """The parsed JSON list; the error does not repeat the text (it may be a secret)."""
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError("must be a list: it begins like JSON but is none") from None


def name(value: str) -> str:
    """A name as used for queues and sources: it becomes a key, a label and part of a URL."""
    if not _NAME.fullmatch(value):
        raise ValueError(f"{value[:60]!r} is no name: 1 to 50 of a-z, 0-9, '_' and '-'")
    return value


def unique(values: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a name given twice: which place counts would be a guess."""
    twice = sorted({each for each in values if values.count(each) > 1})
    if twice:
        raise ValueError(f"{', '.join(map(repr, twice))} given more than once")
    return values


Name = Annotated[str, AfterValidator(name)]
Names = Annotated[tuple[Name, ...], BeforeValidator(split), AfterValidator(unique)]
Texts = Annotated[tuple[str, ...], BeforeValidator(split)]
Int = Annotated[int, BeforeValidator(number)]
Seconds = Annotated[float, BeforeValidator(duration)]
Keep = Annotated[Seconds, Field(ge=60.0, le=36_500 * DAY)]
