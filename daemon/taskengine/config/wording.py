"""What is wrong with a configuration, in words: place, key, and what would be right.

Guarantees: nothing of a secret's value is in the text; unknown keys come with the nearest valid
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, SecretStr, ValidationError

from taskengine.config.layers import Dotted, Layer
from taskengine.errors import listing, nearest


def describe(error: ValidationError, model: type[BaseModel], layers: Iterable[Layer]) -> str:
    """All that pydantic found, one line each."""
    held = list(layers)
    lines = [_line(each, model, held) for each in error.errors(include_url=False)]
    return "\n".join(dict.fromkeys(lines))


def keys_of(model: type[BaseModel]) -> dict[str, Any]:
    """The keys of a section as they are written, each with its type."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _line(error: Mapping[str, Any], model: type[BaseModel], layers: list[Layer]) -> str:
    path = tuple(str(part) for part in error["loc"])
    place = _place(path, layers)
    if not path:
        return f"{place}: {_message(error)}"
    return f"{place}: {'.'.join(path)}: {_problem(error, path, model)}"


def _place(path: Dotted, layers: list[Layer]) -> str:
    """The winning layer's name for the key; where nobody gave it, the last file's."""
    for length in range(len(path), 0, -1):
        for layer in reversed(layers):
            if place := layer.place(path[:length]):
                return place
    return layers[0].origin if layers else "configuration"


def _problem(error: Mapping[str, Any], path: Dotted, model: type[BaseModel]) -> str:
    if error["type"] == "extra_forbidden":
        return _unknown(path, model)
    if error["type"] == "missing":
        return "is missing"
    return _message(error) + _got(error["input"], path, model)


def _message(error: Mapping[str, Any]) -> str:
    text: str = error["msg"]
    return text.removeprefix("Value error, ").replace("Input should be", "must be")


def _unknown(path: Dotted, model: type[BaseModel]) -> str:
    """The nearest key of this section, else the section that has a key of this name."""
    parent = _model_at(path[:-1], model)
    keys = keys_of(parent) if parent else {}
    what = "key" if path[:-1] else "section"
    if hint := nearest(path[-1], keys):
        return f"unknown {what}{hint}"
    for section, section_model in _sections(model):
        if path[-1] in keys_of(section_model):
            return f"unknown {what}, did you mean '{section}.{path[-1]}'?"
    return f"unknown {what} {listing(keys)}"


def _got(value: Any, path: Dotted, model: type[BaseModel]) -> str:
    """The value, where it is one of a key that is no secret and no section."""
    parent = _model_at(path[:-1], model)
    kind = keys_of(parent).get(path[-1]) if parent else None
    if kind is None or _mentions(kind, SecretStr) or _mentions(kind, BaseModel):
        return ""
    if isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 60):
        return f" (got {value!r})"
    return ""


def _mentions(kind: Any, wanted: type) -> bool:
    if isinstance(kind, type) and issubclass(kind, wanted):
        return True
    return any(_mentions(each, wanted) for each in get_args(kind))


def _model_at(path: Dotted, model: type[BaseModel]) -> type[BaseModel] | None:
    """The section that this path leads to; names in a mapping of sections are skipped."""
    current: Any = model
    for part in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            current = keys_of(current).get(part)
        else:
            current = get_args(current)[-1] if get_args(current) else None
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def _sections(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, kind in keys_of(model).items():
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield name, kind
