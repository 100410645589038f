"""What a drill stands on: servers of its own, a client, daemons, all with the default settings."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from taskengine import TaskEngine
from taskengine.config import Config
from taskengine.embedded import EmbeddedServers
from taskengine.lifecycle.definitions import sync
from taskengine.lifecycle.rebuild import remember
from taskengine.store import migrate
from tests.support.daemon import Daemon

_CONFIG = """
[postgres]
dsn = "{dsn}"
[redis]
url = "{redis}"
[jobs]
modules = ["tests.drills.jobs"]
[web]
port = 0
"""
_LIMIT = 300.0  # seconds; what takes longer has failed


@dataclass
class Site:
    """`sql` goes by a connection of its own: it is nobody's pool and no breaker's."""

    folder: Path
    servers: EmbeddedServers
    engine: TaskEngine
    config: Path
    daemons: list[Daemon] = field(default_factory=list)

    def daemon(self, extra: str = "") -> Daemon:
        """One more daemon, running; `extra`: sections that differ from the defaults."""
        number = len(self.daemons) + 1
        path = self.folder / f"daemon-{number}.toml"
        path.write_text(self.config.read_text() + extra)
        daemon = Daemon(path, self.folder / f"daemon-{number}.log")
        daemon.start()
        self.daemons.append(daemon)
        return daemon

    async def sql(self, statement: str, *args: Any) -> list[asyncpg.Record]:
        c = await asyncpg.connect(
            self.servers.postgres.dsn, server_settings={"search_path": "taskengine"}
        )
        try:
            return list(await c.fetch(statement, *args))
        finally:
            await c.close()

    async def value(self, statement: str, *args: Any) -> Any:
        return (await self.sql(statement, *args))[0][0]

    async def count(self, condition: str) -> int:
        return int(await self.value(f"select count(*) from task_executions where {condition}"))

    async def until_count(self, condition: str, count: int) -> float:
        """Seconds until so many rows are so."""
        begun = time.monotonic()
        while (found := await self.count(condition)) < count:
            expect(time.monotonic() - begun < _LIMIT, f"{found} of {count}: {condition}")
            await asyncio.sleep(0.05)
        return time.monotonic() - begun

    async def until_living(self, count: int) -> None:
        """Until so many daemons have joined."""
        living = "select count(*) from task_workers where stopped_at is null and dead_at is null"
        begun = time.monotonic()
        while await self.value(living) < count:
            expect(time.monotonic() - begun < _LIMIT, f"no {count} daemons")
            await asyncio.sleep(0.1)

    async def redis(self, *words: Any) -> Any:
        return await self.engine.parts.client.command(*words)

    def end(self) -> None:
        for daemon in self.daemons:
            if daemon.runs:
                daemon.stop()


async def build(folder: Path, servers: EmbeddedServers) -> Site:
    told = servers.start()
    path = folder / "drill.toml"
    path.write_text(_CONFIG.format(dsn=told.dsn, redis=told.redis_url))
    config = Config.load(path)
    await migrate.up(config.postgres)
    engine = await TaskEngine(config).__aenter__()
    await sync(engine.parts)
    await remember(engine.parts)
    return Site(folder, servers, engine, path)


def expect(holds: bool, otherwise: str) -> None:
    """A drill that did not go as promised fails loudly."""
    if not holds:
        raise RuntimeError(otherwise)
