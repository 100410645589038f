"""What may stand in a payload: plain JSON that Postgres can store, and nothing that changes on the
way there and back.

Guarantees: a value that passes `check_json` is written and read back as the same value (a tuple
comes back as a list); one that does not pass is refused with the path of the part that is wrong,
`$.a[3].b`, and with what would be right. Values themselves never appear in an error: they may be
secret.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

from taskengine.errors import PayloadError

MAX_DEPTH = 100

# Python refuses to write or read an integer of more than 4,300 digits (a guard against
# quadratic time); Postgres's numeric holds 131,072 digits before the point and 16,383 after it.
MAX_INTEGER_BITS = 14_280
_MAX_ADJUSTED = 131_071
_MIN_EXPONENT = -16_383

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)

_INSTEAD = {
    "set": "pass a list",
    "frozenset": "pass a list",
    "bytes": "pass text, base64 for binary",
    "bytearray": "pass text, base64 for binary",
    "datetime": "pass value.isoformat()",
    "date": "pass value.isoformat()",
    "time": "pass value.isoformat()",
    "timedelta": "pass value.total_seconds()",
    "UUID": "pass str(value)",
}
_ANY_JSON = "pass a dict, list, str, number, bool or None"

Path = list[str | int]


def path_text(path: Path | tuple[str | int, ...]) -> str:
    """`$.a[3].b`; a key that is no plain word comes in brackets and quotes, in ASCII."""
    parts = ["$"]
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN_KEY.fullmatch(step):
            parts.append(f".{step}")
        else:
            parts.append(f"[{json.dumps(step)}]")
    return "".join(parts)


def check_json(value: object) -> bool:
    """Raise `PayloadError` unless the value is plain JSON; the answer: does it hold a `Decimal`?"""
    checker = _Checker()
    checker.check(value)
    return checker.exact


def number_problem(number: Decimal) -> str | None:
    """Why Postgres could not store the number, or `None`."""
    if not number.is_finite():
        return f"{number} is not JSON: pass None, or text"
    if number.adjusted() > _MAX_ADJUSTED or int(number.as_tuple().exponent) < _MIN_EXPONENT:
        return "a number of more digits than can be stored: pass it as text"
    return None


class _Checker:
    """One walk over a value; `path` is where it stands, `exact` whether it met a `Decimal`."""

    def __init__(self) -> None:
        self.path: Path = []
        self.exact = False

    def check(self, value: object) -> None:
        if isinstance(value, str):
            self._text(value)
        elif isinstance(value, dict):
            self._object(value)
        elif isinstance(value, list | tuple):
            self._array(value)
        elif value is not None and not isinstance(value, bool):
            self._number(value)

    def _object(self, value: dict[Any, Any]) -> None:
        self._deeper()
        for key, item in value.items():
            if not isinstance(key, str):
                raise self._bad(f"a key is {type(key).__name__}: keys are text, pass str(key)")
            self.path.append(key)
            self._text(key)
            self.check(item)
            self.path.pop()

    def _array(self, value: list[Any] | tuple[Any, ...]) -> None:
        self._deeper()
        for index, item in enumerate(value):
            self.path.append(index)
            self.check(item)
            self.path.pop()

    def _deeper(self) -> None:
        if len(self.path) >= MAX_DEPTH:
            raise PayloadError(
                path_text(self.path[:5]) + "…", f"nested more than {MAX_DEPTH} levels deep"
            )

    def _text(self, value: str) -> None:
        if "\0" in value:
            raise self._bad("\\u0000 cannot be stored: remove it, or pass base64")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise self._bad("a lone surrogate is not valid Unicode: remove it") from None

    def _number(self, value: object) -> None:
        if isinstance(value, int):
            if value.bit_length() > MAX_INTEGER_BITS:
                raise self._bad("an integer of more than 4,299 digits: pass it as text")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise self._bad(f"{float(value)!r} is not JSON: pass None, or text")
        elif isinstance(value, Decimal):
            self._decimal(value)
        else:
            name = type(value).__name__
            raise self._bad(f"{name} is not JSON: {_INSTEAD.get(name, _ANY_JSON)}")

    def _decimal(self, value: Decimal) -> None:
        self.exact = True
        if problem := number_problem(value):
            raise self._bad(problem)

    def _bad(self, problem: str) -> PayloadError:
        return PayloadError(path_text(self.path), problem)
