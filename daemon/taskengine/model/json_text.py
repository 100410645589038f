"""JSON in and out of the engine, digit for digit.

Guarantees: what `encode` accepts is stored as it is, or refused with the path of the part that is
wrong; `decode` gives back every digit (a number that a float would round or shorten is a
`Decimal`, so money never passes through a float); `loads_strict` turns any bytes whatsoever into a
value or a `PayloadError`, never into another exception.
"""

from __future__ import annotations

import codecs
import json
from decimal import Decimal, InvalidOperation
from typing import NoReturn, TypeAlias, cast

from taskengine.errors import PayloadError
from taskengine.model.json_check import check_json, number_problem

JsonValue: TypeAlias = (
    "dict[str, JsonValue] | list[JsonValue] | str | int | float | Decimal | bool | None"
)
"""A decoded JSON value; a `Decimal` stands for a number whose digits a float would not keep."""


def encode(value: object) -> str:
    """Compact JSON text of a plain value; `PayloadError` names the path of what is not plain.

    Plain: dict with text keys, list, tuple (written as a list), str, int, finite float, finite
    `Decimal` (written as a number, digit for digit), bool, None; at most 100 levels deep.
    """
    exact = check_json(value)
    if exact:
        return "".join(_written(value))
    return _ENCODER.encode(value)


def check_size(text: str, limit: int) -> str:
    """The text itself, if its UTF-8 has at most `limit` bytes; `PayloadError` otherwise."""
    size = len(text) if text.isascii() else len(text.encode())
    if size > limit:
        advice = "store it elsewhere and pass a reference, or raise the job's limit"
        raise PayloadError("$", f"{size:,} bytes, at most {limit:,} are allowed: {advice}")
    return text


def decode(text: str) -> JsonValue:
    """The value of stored JSON text: integers of any size, fractions without loss.

    A fraction is a `float` where the float prints the same digits again (`0.1`), else a `Decimal`
    (`1.10`, `0.12345678901234567890`). Of duplicate keys the last wins. Raises `PayloadError`.
    """
    return _load(text, _STORED)


def loads_strict(body: bytes) -> JsonValue:
    """The value of a body from outside; `PayloadError` says what makes it unusable.

    Refused: empty, a byte-order mark, bad UTF-8, not JSON, NaN and Infinity, more than 100 levels,
    integers of more than 4,299 digits, and what cannot be stored (`\\u0000`, lone surrogates).
    """
    if body.startswith(codecs.BOM_UTF8):
        raise PayloadError("$", "starts with a byte-order mark: send plain UTF-8")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise PayloadError("$", f"not UTF-8 at byte {error.start}") from None
    if not text.strip():
        raise PayloadError("$", "empty: a JSON value was expected")
    value = _load(text, _FOREIGN)
    check_json(value)
    return value


def _load(text: str, decoder: json.JSONDecoder) -> JsonValue:
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise PayloadError("$", f"not JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise PayloadError("$", "nested too deep") from None
    return cast(JsonValue, value)


def _fraction(text: str) -> float | Decimal:
    near = float(text)
    if repr(near) == text:
        return near
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise PayloadError("$", "a number of more digits than can be stored") from None
    if problem := number_problem(number):
        raise PayloadError("$", problem)
    # `1e3` is a measurement, not money: a float may stand for it where it means the same.
    same = "e" in text.lower() and number == Decimal(repr(near))
    return near if same else number


def _any_integer(text: str) -> int:
    # int() refuses long texts because it takes quadratic time; stored numbers are bounded already.
    return int(text) if len(text) <= 4_300 else int(Decimal(text))


def _short_integer(text: str) -> int:
    if len(text) > 4_300:
        raise PayloadError("$", "an integer of more than 4,299 digits: send it as text")
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise PayloadError("$", f"{name} is not JSON: send null, or text")


# Made once: json.dumps and json.loads make one for every call that is not by the defaults.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)
_STORED = json.JSONDecoder(
    parse_float=_fraction, parse_int=_any_integer, parse_constant=_refuse_constant
)
_FOREIGN = json.JSONDecoder(
    parse_float=_fraction, parse_int=_short_integer, parse_constant=_refuse_constant
)


def _written(value: object) -> list[str]:
    """The parts of the JSON text of a checked value: the standard encoder knows no `Decimal`."""
    if isinstance(value, Decimal):
        return [str(value)]
    if isinstance(value, dict):
        items = [[json.dumps(k, ensure_ascii=False), ":", *_written(v)] for k, v in value.items()]
        return _joined("{", items, "}")
    if isinstance(value, list | tuple):
        return _joined("[", [_written(item) for item in value], "]")
    return [json.dumps(value, ensure_ascii=False)]


def _joined(opening: str, items: list[list[str]], closing: str) -> list[str]:
    parts = [opening]
    for number, item in enumerate(items):
        parts.extend([",", *item] if number else item)
    return [*parts, closing]
