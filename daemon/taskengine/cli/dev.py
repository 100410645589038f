"""`taskengine dev`: everything that the engine needs, in this folder, for trying and developing.

A private Postgres and Valkey, the daemon in the foreground, the example jobs beside the project's
own. Guarantees: the servers end last, after the daemon has drained, whatever ends it; what is wrong
in the configuration is said before anything starts; the data under `.taskengine/` is kept; the
examples' schedules begin anew at each start, the project's own do as they are set.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from types import FrameType

from taskengine import app
from taskengine.cli.dev_config import dev_config
from taskengine.cli.dev_show import EXAMPLE_JOBS, Showcase, say
from taskengine.client import TaskEngine
from taskengine.config import Config, find_config
from taskengine.embedded import EmbeddedError, EmbeddedServers, Servers
from taskengine.model.registry import Registry
from taskengine.store import definitions, engine, migrate

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(config_path: Path | None, port: int | None = None) -> int:
    """Run until asked to stop; the exit status. `port`: instead of `[web] port`.

    Raises `ConfigError`, and `EmbeddedError` where the servers cannot be had.
    """
    for number in _ENDING[1:]:
        signal.signal(number, _interrupt)  # until the daemon heeds them: as Ctrl-C
    path = find_config(Path.cwd(), config_path)
    own = Config.load(path)
    Registry.load(own.jobs.modules)
    say("Starting a private Postgres and Valkey …")
    pair = EmbeddedServers(Path.cwd())
    servers = _start(pair)
    try:
        config = dev_config(own, path, servers, port)
        asyncio.run(_begin_anew(config))
        return app.serve(config, path, lambda parts: Showcase(parts, servers.state))
    finally:
        _let_them_end()
        pair.stop()
        say("Stopped.")


def _start(pair: EmbeddedServers) -> Servers:
    try:
        return pair.start()
    except OSError as error:  # a full disk, a folder that cannot be written
        raise EmbeddedError(f"Postgres and Valkey cannot be started here: {error}") from error


async def _begin_anew(config: Config) -> None:
    """What the examples' schedules have missed since the last run, perhaps days, is no news."""
    await migrate.up(config.postgres)
    async with TaskEngine(config, Registry()) as client, client.parts.store.connection() as c:
        examples = [each for each in await definitions.all_(c) if each.name in EXAMPLE_JOBS]
        await definitions.keep_up(c, examples, await engine.now(c))


def _let_them_end() -> None:
    """Stopping the servers takes a moment; cut short, it would leave them to themselves."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise KeyboardInterrupt
