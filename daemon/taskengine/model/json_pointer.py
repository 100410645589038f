"""JSON Pointer (RFC 6901): where in a webhook's body the id, the type or the time stands.

Guarantees: looking something up never raises for the value's sake; a pointer itself is checked
once, by `check_pointer`, when the configuration is read.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from taskengine.errors import InvalidSetting
from taskengine.model.json_text import JsonValue


class Missing(Enum):
    """The type of `MISSING`: nothing is there, which is not the same as `null`."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING

_POINTER = re.compile(r"(/([^~/]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


def check_pointer(pointer: str) -> str:
    """The pointer itself, if it is one (`""`, `/a/0/b`); `InvalidSetting` otherwise."""
    if _POINTER.fullmatch(pointer):
        return pointer
    rule = "it starts with '/', and in it '~' is written ~0 and '/' in a name ~1"
    raise InvalidSetting(f"JSON pointer {pointer!a}: {rule}")


def at_pointer(value: JsonValue, pointer: str) -> JsonValue | Missing:
    """What stands at the pointer, or `MISSING`; `""` is the whole value."""
    found: JsonValue | Missing = value
    for step in check_pointer(pointer).split("/")[1:]:
        found = _step(found, step.replace("~1", "/").replace("~0", "~"))
    return found


def _step(value: JsonValue | Missing, name: str) -> JsonValue | Missing:
    if isinstance(value, dict):
        return value.get(name, MISSING)
    if isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
        return value[int(name)]
    return MISSING
