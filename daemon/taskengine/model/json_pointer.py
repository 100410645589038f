"""JSON Pointer (RFC 6901): where in a webhook's body the id, the type or the time stands.

Guarantees: looking something up never raises, whatever the value is. What a pointer may be is
checked when the configuration is read (`config/webhooks.py`).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from taskengine.model.json_text import JsonValue


class Missing(Enum):
    """The type of `MISSING`: nothing is there, which is not the same as `null`."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


def at_pointer(value: JsonValue, pointer: str) -> JsonValue | Missing:
    """What stands at the pointer (`/a/0/b`), or `MISSING`; `""` is the whole value."""
    found: JsonValue | Missing = value
    for step in pointer.split("/")[1:]:
        found = _step(found, step.replace("~1", "/").replace("~0", "~"))
    return found


def _step(value: JsonValue | Missing, name: str) -> JsonValue | Missing:
    if isinstance(value, dict):
        return value.get(name, MISSING)
    if isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
        return value[int(name)]
    return MISSING
