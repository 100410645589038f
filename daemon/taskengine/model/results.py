"""What a job returns, as JSON: more lenient than a payload, because the work is already done.

Guarantees: never raises, whatever the value is or does when looked at. A result that cannot be
stored becomes a reason that can; the execution still succeeds.

The encoding: `Decimal` and `UUID` as text (every digit kept), dates and times as ISO 8601 text, a
`timedelta` as seconds, an `Enum` as its value, a dataclass, a named tuple's list or a pydantic
model as what they hold, a tuple as a list.
"""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from taskengine.errors import PayloadError
from taskengine.model.json_check import MAX_DEPTH
from taskengine.model.json_text import check_size, encode


def encode_result(value: object, limit: int) -> tuple[str | None, str | None]:
    """`(text, None)` or `(None, why it cannot be stored)`; `limit` in bytes of UTF-8."""
    try:
        return check_size(encode(_plain(value, 0)), limit), None
    except PayloadError as error:
        return None, f"result at {error.path}: {error.problem}"
    except BaseException as error:  # a user's object may do anything when it is read, even exit
        return None, f"result: {type(error).__name__} while it was turned into JSON"


def _plain(value: Any, depth: int) -> object:
    if value is None or type(value) in {str, int, float, bool}:
        return value
    if depth > MAX_DEPTH:
        raise PayloadError("$", f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    return _scalar(value, depth)


def _scalar(value: Any, depth: int) -> object:
    if isinstance(value, Enum):
        return _plain(value.value, depth + 1)
    if isinstance(value, Decimal | UUID):
        return str(value) if not isinstance(value, Decimal) or value.is_finite() else value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return _held(value, depth)


def _held(value: Any, depth: int) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _plain(fields, depth + 1)
    if not isinstance(value, type) and callable(getattr(value, "model_dump", None)):
        return _plain(value.model_dump(), depth + 1)
    return value


def _key(key: object) -> object:
    """Keys as text where the text is beyond doubt; the check refuses the others by their path."""
    if isinstance(key, Enum):
        return key.value
    return str(key) if isinstance(key, UUID) else key
