"""The whole configuration: built once at start, frozen, handed over section by section.

Guarantees: `Config(...)` itself reads neither environment nor files; `Config.load` reads all of
them in one order (overrides > environment > credentials > file > defaults) and raises `ConfigError`
for anything it does not understand; what sections say about each other fits together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from taskengine.config.layers import Layer, from_credentials, from_environment, from_toml, merge
from taskengine.config.sections import (
    Engine,
    Heartbeat,
    Jobs,
    Logs,
    Migrate,
    Notices,
    Postgres,
    Queue,
    Recovery,
    Redis,
    Retention,
    Scheduler,
    Web,
    Workers,
)
from taskengine.config.values import Name, Section
from taskengine.config.webhooks import Webhooks
from taskengine.config.wording import describe, keys_of
from taskengine.errors import ConfigError, listing, nearest

RELOADABLE = ("logs.level", "workers.slots", "workers.threads")


class Config(Section):
    """config.toml, complete: every key that was not given has its default."""

    engine: Engine = Engine()
    postgres: Postgres = Postgres()
    redis: Redis = Redis()
    workers: Workers = Workers()
    queues: Mapping[Name, Queue] = Field(default_factory=dict)
    jobs: Jobs = Jobs()
    scheduler: Scheduler = Scheduler()
    heartbeat: Heartbeat = Heartbeat()
    recovery: Recovery = Recovery()
    retention: Retention = Retention()
    webhooks: Webhooks = Webhooks()
    web: Web = Web()
    logs: Logs = Logs()
    notices: Notices = Notices()
    migrate: Migrate = Migrate()

    @classmethod
    def load(
        cls,
        path: Path | None,
        environ: Mapping[str, str] | None = None,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Config:
        """The configuration of this file (None: no file), the environment and the credentials.

        `overrides` (`{section: {key: value}}`, e.g. of a command line) win over all of them.
        ConfigError names the place, the key and what would be right, one line for each problem.
        """
        layers = layers_of(path, os.environ if environ is None else environ)
        given = {section: dict(keys) for section, keys in (overrides or {}).items()}
        layers.append(Layer("the command line", given))
        try:
            return cls.model_validate(merge(layers))
        except ValidationError as error:
            raise ConfigError(describe(error, cls, layers)) from None

    @property
    def notice_queue(self) -> str:
        """Where notices go: as configured, else the second queue, else the first."""
        return self.notices.queue or self.engine.queues[:2][-1]

    def queue(self, name: str) -> Queue:
        """The settings of one queue, its defaults where the file has none."""
        return self.queues.get(name) or Queue()

    def reloadable_diff(self, new: Config) -> tuple[dict[str, Any], list[str]]:
        """What a SIGHUP may change: `{dotted key: new value}`, and the keys that need a restart.

        Values of keys that need a restart are not shown (they may be secrets).
        """
        old_keys, new_keys = dict(flat(self)), dict(flat(new))
        changed = sorted(
            key
            for key in old_keys.keys() | new_keys.keys()
            if old_keys.get(key) != new_keys.get(key)
        )
        changes = {key: new_keys[key] for key in changed if key in RELOADABLE}
        return changes, [key for key in changed if key not in RELOADABLE]

    @field_validator("workers")
    @classmethod
    def _poll_listed(cls, workers: Workers, info: ValidationInfo) -> Workers:
        """No queues named: all; some named: those, in the engine's order of priority."""
        engine: Engine | None = info.data.get("engine")
        if engine is None:
            return workers
        for name in workers.queues:
            _refuse_unlisted(name, engine.queues, "queues")
        polled = [each for each in engine.queues if not workers.queues or each in workers.queues]
        return workers.model_copy(update={"queues": tuple(polled)})

    @field_validator("queues")
    @classmethod
    def _settings_of_listed(
        cls, queues: Mapping[str, Queue], info: ValidationInfo
    ) -> Mapping[str, Queue]:
        if engine := info.data.get("engine"):
            for name in queues:
                _refuse_unlisted(name, engine.queues, "a section")
        return queues

    @model_validator(mode="after")
    def _sections_fit(self) -> Config:
        reserved = sum(self.queue(name).reserved for name in self.workers.queues)
        if reserved > self.workers.slots:
            raise ValueError(
                f"queues.<name>.reserved add up to {reserved}, more than workers.slots "
                f"({self.workers.slots})"
            )
        wanted = {"notices.queue": self.notices.queue} | {
            f"webhooks.sources.{name}.queue": source.queue
            for name, source in self.webhooks.sources.items()
        }
        for key, queue in wanted.items():
            if queue is not None:
                _refuse_unlisted(queue, self.engine.queues, key)
        return self


def find_config(
    start: Path, explicit: Path | None = None, environ: Mapping[str, str] | None = None
) -> Path | None:
    """The file to load: the one asked for, else $TASKENGINE_CONFIG, else config.toml in `start`.

    None where there is none. A file that was asked for is returned even if it does not exist:
    loading it then says so.
    """
    if explicit is not None:
        return explicit
    named = (os.environ if environ is None else environ).get("TASKENGINE_CONFIG")
    if named:
        return Path(named)
    usual = start / "config.toml"
    return usual if usual.is_file() else None


def layers_of(path: Path | None, environ: Mapping[str, str]) -> list[Layer]:
    """Where values come from: file, credentials, environment, the weakest first."""
    known = {
        section: keys_of(kind)
        for section, kind in keys_of(Config).items()
        if isinstance(kind, type) and issubclass(kind, BaseModel)
    }
    layers = [from_toml(path)] if path is not None else []
    if folder := environ.get("CREDENTIALS_DIRECTORY"):
        layers.append(from_credentials(Path(folder), known))
    return [*layers, from_environment(environ, known)]


def _refuse_unlisted(name: str, queues: tuple[str, ...], key: str) -> None:
    if name not in queues:
        hint = nearest(name, queues)
        raise ValueError(f"{key} names {name!r}, not one of engine.queues{hint} {listing(queues)}")


def flat(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of every section, dotted, with its value."""
    for name, field in type(section).model_fields.items():
        yield from _flat_value(prefix + (field.alias or name), getattr(section, name))


def _flat_value(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        yield from flat(value, f"{key}.")
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _flat_value(f"{key}.{name}", each)
    else:
        yield key, value
