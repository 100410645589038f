"""What every command begins with: the configuration that counts here, and the stores opened.

The file is the one asked for, else $TASKENGINE_CONFIG, else ./config.toml. In a folder whose
private servers run (`.taskengine/`) those are used, unless a file or a DSN was named; with them
comes what `taskengine dev` has set up there: the example jobs and their webhook source.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import typer

from taskengine.cli import out
from taskengine.cli.dev_config import examples_of
from taskengine.cli.failure import Refused
from taskengine.client import TaskEngine
from taskengine.config import Config, find_config
from taskengine.embedded import Servers, find_running
from taskengine.embedded.place import state_of
from taskengine.errors import StoreUnavailable, TaskEngineError
from taskengine.jobs.notify_failure import NotifyFailure
from taskengine.model.registry import Registry
from taskengine.store.pool import translate

T = TypeVar("T")


@dataclass(frozen=True)
class Loaded:
    """The configuration, its file (if any), and the private servers that it uses (if any)."""

    config: Config
    path: Path | None
    servers: Servers | None
    overrides: Mapping[str, Mapping[str, Any]]


def load(explicit: Path | None, environ: Mapping[str, str] | None = None) -> Loaded:
    """Raises `ConfigError`."""
    env = os.environ if environ is None else environ
    path = find_config(Path.cwd(), explicit, env)
    named = explicit is not None or bool(env.get("TASKENGINE_CONFIG"))
    servers = None if named or _told(env, "postgres", "dsn") else find_running(Path.cwd())
    own = Config.load(path, env)
    if servers is None:
        return Loaded(own, path, None, {})
    overrides = _overrides(own, servers, env)
    return Loaded(Config.load(path, env, overrides), path, servers, overrides)


def _overrides(own: Config, servers: Servers, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    overrides = {"postgres": {"dsn": servers.dsn}} | examples_of(own, servers)
    if not _told(env, "redis", "url"):
        overrides["redis"] = {"url": servers.redis_url}
    return overrides


def _told(env: Mapping[str, str], section: str, key: str) -> bool:
    """Whether the environment or a systemd credential says it."""
    variable = f"TASKENGINE_{section}__{key}".upper()
    folder = env.get("CREDENTIALS_DIRECTORY")
    credential = bool(folder) and (Path(folder or "") / f"{section}_{key}").is_file()
    return credential or any(name.upper() == variable for name in env)


def ask(
    explicit: Path | None, work: Callable[[TaskEngine], Awaitable[T]], *, jobs: bool = False
) -> T:
    """Open both stores (either may be away), work, close. `jobs`: load the jobs' modules, too."""
    loaded = load(explicit)
    config = loaded.config
    registry = Registry.load(config.jobs.modules) if jobs else Registry()

    async def run() -> T:
        async with TaskEngine(config, registry) as engine:
            if jobs:
                registry.add(NotifyFailure(engine.parts))
            return await work(engine)

    try:
        return finish(run)
    except StoreUnavailable:
        _explain(loaded)
        raise


def _explain(loaded: Loaded) -> None:
    """A folder where `taskengine dev` has run before, no other Postgres named: say what is missing."""
    if loaded.servers is None and loaded.config.postgres.dsn is None:
        state = state_of(Path.cwd())
        if state.is_dir():
            out.note(f"`taskengine dev` is not running here, nor is its Postgres in {state}")


def finish(run: Callable[[], Awaitable[T]]) -> T:
    """Run it in a loop of its own; what a driver raises becomes the family's."""

    async def translated() -> T:
        try:
            return await run()
        except Exception as error:
            known = isinstance(error, TaskEngineError | ValueError | TimeoutError)
            ours = None if known else translate(error)
            if ours is None:
                raise
            raise ours from error

    return asyncio.run(translated())


def operator() -> str:
    """Who does it, for the history: `cli:alice@host`, through sudo, too."""
    user = os.environ.get("SUDO_USER")
    try:
        user = user or getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"cli:{user}@{socket.gethostname()}"[:200]


def confirm(question: str, *, yes: bool) -> None:
    """Ask before many are moved at once; where nobody can be asked, `Refused` without `--yes`."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Refused(f"{question} Nobody can be asked here: say --yes")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
