"""Where values come from: environment, systemd credentials, config.toml. Each is a `Layer`.

Guarantees: a name that looks meant for the engine but fits no key is an error, never ignored (a
typo would silently leave the default in force). Layers only read text; what it means is `Config`'s
part.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taskengine.errors import ConfigError, listing, nearest

ENV_PREFIX = "TASKENGINE_"
_KEYS_PREFIX, _KEYS_SUFFIX = "webhook_", "_keys"

Dotted = tuple[str, ...]
Known = Mapping[str, Iterable[str]]  # section -> its keys


@dataclass(frozen=True)
class Layer:
    """Nested values of one origin, and what to call the place of each."""

    origin: str
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[Dotted, str] = field(default_factory=dict)

    def put(self, path: Dotted, value: Any, place: str) -> None:
        table = self.values
        for part in path[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{place}: {'.'.join(path)} contradicts a value of its section")
        table[path[-1]] = value
        self.places[path] = place

    def place(self, path: Dotted) -> str | None:
        """What holds this key (or a part of it) here, in words; None where it is not here."""
        if not _holds(self.values, path):
            return None
        return next(
            (place for known, place in self.places.items() if known[: len(path)] == path),
            self.origin,
        )


def _holds(values: Any, path: Dotted) -> bool:
    for part in path:
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True


def merge(layers: Iterable[Layer]) -> dict[str, Any]:
    """All values; a later layer wins, key by key."""
    merged: dict[str, Any] = {}
    for layer in layers:
        _update(merged, layer.values)
    return merged


def _update(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _update(into[key], value)
        else:
            into[key] = dict(_copied(value)) if isinstance(value, dict) else value


def _copied(values: dict[str, Any]) -> dict[str, Any]:
    return {key: _copied(each) if isinstance(each, dict) else each for key, each in values.items()}


def from_toml(path: Path) -> Layer:
    """The file's tables. Errors name the file and the line, never a value."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from None
    return Layer(str(path), values)


def from_environment(environ: Mapping[str, str], known: Known) -> Layer:
    """`TASKENGINE_SECTION__KEY` (any case). `TASKENGINE_CONFIG` and the like are left alone."""
    layer = Layer("the environment")
    for variable, value in sorted(environ.items()):
        if not variable.upper().startswith(ENV_PREFIX):
            continue
        parts = tuple(variable[len(ENV_PREFIX) :].lower().split("__"))
        if len(parts) > 1:
            layer.put(parts, value, f"environment variable {variable}")
        elif meant := _single_underscore(parts[0], known):
            raise ConfigError(f"environment variable {variable} fits no key: write {meant}")
    return layer


def _single_underscore(name: str, known: Known) -> str | None:
    """`TASKENGINE_WORKERS_SLOTS` was meant as `TASKENGINE_WORKERS__SLOTS`."""
    section, _, key = name.partition("_")
    if section not in known:
        return None
    return f"{ENV_PREFIX}{section.upper()}__{key.upper() or '<KEY>'}"


def from_credentials(folder: Path, known: Known) -> Layer:
    """`<section>_<key>` and `webhook_<source>_keys` (one key a line) of $CREDENTIALS_DIRECTORY.

    Files that resemble none of these are somebody else's and left alone.
    """
    layer = Layer(f"credentials in {folder}")
    paths = {f"{section}_{key}": (section, key) for section, keys in known.items() for key in keys}
    for file in _files(folder):
        path = paths.get(file.name) or _source_keys(file.name)
        if path is not None:
            layer.put(path, _secret(file), f"credential {file}")
        elif _resembles(file.name, paths, known):
            hint = nearest(file.name, paths) or f" {listing(paths)}"
            raise ConfigError(f"credential {file} fits no key{hint}")
    return layer


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.is_file())
    except OSError as error:
        raise ConfigError(f"credentials in {folder} cannot be read: {error.strerror}") from None


def _source_keys(name: str) -> Dotted | None:
    source = name.removeprefix(_KEYS_PREFIX).removesuffix(_KEYS_SUFFIX)
    if name != f"{_KEYS_PREFIX}{source}{_KEYS_SUFFIX}" or not source:
        return None
    return ("webhooks", "sources", source, "keys")


def _resembles(name: str, paths: Iterable[str], known: Known) -> bool:
    prefixes = (*(f"{section}_" for section in known), _KEYS_PREFIX)
    return name.startswith(prefixes) or bool(nearest(name, paths))


def _secret(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"credential {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"credential {file} is not UTF-8") from None
