"""Show 6 of the engine: SIGTERM with fifty jobs running, and the restart after it."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from taskengine import TaskEngine
from taskengine.config import Config
from taskengine.embedded import Servers
from taskengine.lifecycle.definitions import sync
from taskengine.lifecycle.rebuild import remember
from taskengine.store import migrate
from tests.support.daemon import Daemon
from tests.support.until import until
from tests.system.storm_jobs import once_stopped, storm

pytestmark = pytest.mark.slow

_CONFIG = """
[postgres]
dsn = "{dsn}"
schema = "sigterm"
[redis]
url = "{redis}"
prefix = "sigterm"
[jobs]
modules = ["tests.system.storm_jobs"]
[web]
port = 0
[workers]
slots = 50
drain_timeout = 4
"""


async def test_sigterm_with_fifty_jobs_running(servers: Servers, tmp_path: Path) -> None:
    path = tmp_path / "sigterm.toml"
    path.write_text(_CONFIG.format(dsn=servers.dsn, redis=servers.redis_url))
    config = Config.load(path)
    await migrate.up(config.postgres)
    async with TaskEngine(config) as engine:
        await sync(engine.parts)
        await remember(engine.parts)
        await engine.dispatch_many([once_stopped.call() for _ in range(25)])
        await engine.dispatch_many([storm.call(milliseconds=3000) for _ in range(25)])
        daemon = Daemon(path, tmp_path / "daemon.log")
        daemon.start()
        await _until(engine, "state = 'running' and (job = 'storm' or cursor is not null)", 50)
        assert await asyncio.to_thread(daemon.stop) == 0
        await _check_stopped(engine)
        with Daemon(path, tmp_path / "daemon.log"):
            await _until(engine, "state = 'succeeded'", 50)
        assert await _count(engine, "result = '\"after the restart\"' and attempt = 1") == 25


async def test_a_hangup_while_it_waits_for_postgres_does_not_end_it(tmp_path: Path) -> None:
    path, log = tmp_path / "sigterm.toml", tmp_path / "daemon.log"
    path.write_text(_CONFIG.format(dsn=f"postgresql:///x?host={tmp_path}", redis="redis://x"))
    daemon = Daemon(path, log)
    daemon.start()
    await until(lambda: "waiting for Postgres" in log.read_text(), 60)
    daemon.send(signal.SIGHUP)
    assert await asyncio.to_thread(daemon.stop) == 0


async def _check_stopped(engine: TaskEngine) -> None:
    """Within the drain time: ended. The others: pending, the same attempt, one interruption."""
    assert await _count(engine, "job = 'storm' and state = 'succeeded' and attempt = 1") == 25
    stopped = "job = 'once-stopped' and state = 'pending' and attempt = 1 and interruptions = 1"
    assert await _count(engine, stopped) == 25
    assert await _count(engine, "orphanings > 0") == 0


async def _until(engine: TaskEngine, condition: str, count: int) -> None:
    end = time.monotonic() + 60
    while (found := await _count(engine, condition)) < count:
        assert time.monotonic() < end, f"{found} of {count}: {condition}"
        await asyncio.sleep(0.1)


async def _count(engine: TaskEngine, condition: str) -> int:
    async with engine.parts.store.connection() as c:
        statement = f"select count(*) from task_executions where {condition}"
        return int(await c.fetchval(statement))
