"""The configuration for the command line: each key with its value and what said so.

Guarantees: no secret is shown; of an address only scheme, user, host and path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import SecretStr

from taskengine.cli import out
from taskengine.cli.session import load
from taskengine.config.layers import Layer
from taskengine.config.root import flat, layers_of
from taskengine.embedded import Servers

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
    layers = layers_of(loaded.path, os.environ)
    if loaded.servers is not None:
        layers.append(_running(loaded.servers, loaded.overrides))
    return [
        Entry(key, _shown(value), _source(tuple(key.split(".")), layers))
        for key, value in flat(loaded.config)
    ]


def _running(servers: Servers, overrides: Mapping[str, Mapping[str, Any]]) -> Layer:
    given = {section: dict(keys) for section, keys in overrides.items()}
    return Layer(f"`taskengine dev` running in {servers.state.parent}", given)


def _source(path: tuple[str, ...], layers: list[Layer]) -> str:
    return next(
        (place for layer in reversed(layers) if (place := layer.place(path)) is not None), _DEFAULT
    )


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
    if isinstance(value, float):
        return str(value).removesuffix(".0")
    return str(value).lower() if isinstance(value, bool) else str(value)
