"""The configuration for the command line: each key with its value and what said so.

Guarantees: no secret is shown; of an address only scheme, user, host and path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from taskengine.cli import out
from taskengine.cli.session import Loaded, load
from taskengine.config import Config
from taskengine.config.layers import Layer, from_credentials, from_environment, from_toml
from taskengine.config.wording import keys_of

_HIDDEN = "***"
_DEFAULT = "default"


class Entry(NamedTuple):
    """One key."""

    key: str
    value: object
    source: str


COLUMNS = [
    out.Column[Entry]("key", lambda each: each.key),
    out.Column[Entry]("value", lambda each: _text(each.value)),
    out.Column[Entry]("source", lambda each: each.source),
]


def read(explicit: Path | None) -> list[Entry]:
    """Raises `ConfigError`."""
    loaded = load(explicit)
    layers = _layers(loaded)
    return [
        Entry(".".join(path), value, _source(path, layers))
        for path, value in _flat((), loaded.config)
    ]


def _layers(loaded: Loaded) -> list[Layer]:
    """Weakest first, as the configuration was put together."""
    known = {
        section: keys_of(kind)
        for section, kind in keys_of(Config).items()
        if isinstance(kind, type) and issubclass(kind, BaseModel)
    }
    layers = [from_toml(loaded.path)] if loaded.path is not None else []
    if folder := os.environ.get("CREDENTIALS_DIRECTORY"):
        layers.append(from_credentials(Path(folder), known))
    layers.append(from_environment(os.environ, known))
    if loaded.servers is not None:
        running = f"servers running in {loaded.servers.state}"
        layers.append(
            Layer(running, {section: dict(keys) for section, keys in loaded.overrides.items()})
        )
    return layers


def _source(path: tuple[str, ...], layers: list[Layer]) -> str:
    return next(
        (place for layer in reversed(layers) if (place := layer.place(path)) is not None), _DEFAULT
    )


def _flat(path: tuple[str, ...], value: object) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield from _flat((*path, field.alias or name), getattr(value, name))
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _flat((*path, str(name)), each)
    else:
        yield path, _shown(value)


def _shown(value: object) -> object:
    if isinstance(value, SecretStr):
        return _address(value.get_secret_value())
    if isinstance(value, tuple):
        return [_HIDDEN if isinstance(each, SecretStr) else each for each in value]
    return str(value) if isinstance(value, Path) else value


def _address(text: str) -> str:
    """An address without what may be secret in it; anything else is hidden whole."""
    try:
        parts = urlsplit(text)
        user = f"{parts.username}@" if parts.username else ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return _HIDDEN
    if not parts.scheme or parts.scheme not in (
        "postgresql",
        "postgres",
        "redis",
        "rediss",
        "unix",
    ):
        return _HIDDEN
    query = "?…" if parts.query else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}{query}"


def _text(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
