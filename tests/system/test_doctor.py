"""The doctor beside a real daemon: nothing while work goes on, and a key of a wrong type heals."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from taskengine import TaskEngine
from taskengine.config import Config
from taskengine.embedded import EmbeddedServers
from taskengine.store import migrate
from tests.support.daemon import Daemon
from tests.support.until import until
from tests.system.doctor_jobs import flaky, plain, sleepy

pytestmark = pytest.mark.slow

_LOOKS = 6
_CONFIG = """
[postgres]
dsn = "{dsn}"
[redis]
url = "{redis}"
[jobs]
modules = ["tests.system.doctor_jobs"]
[web]
port = 0
"""


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[EmbeddedServers]:
    """Durable ones, as in production: nothing of the servers themselves is to be found."""
    servers = EmbeddedServers(tmp_path)
    yield servers
    servers.remove()


@asynccontextmanager
async def running(servers: EmbeddedServers, folder: Path) -> AsyncIterator[tuple[TaskEngine, Path]]:
    """Two daemons."""
    told = servers.start()
    path = folder / "doctor.toml"
    path.write_text(_CONFIG.format(dsn=told.dsn, redis=told.redis_url))
    config = Config.load(path)
    await migrate.up(config.postgres)
    daemons = [Daemon(path, folder / f"{n}.log") for n in (1, 2)]
    for daemon in daemons:
        daemon.start()
    try:
        async with TaskEngine(config) as engine:

            async def there() -> bool:
                async with engine.parts.store.connection() as c:
                    return bool(await c.fetchval("select count(*) = 2 from task_workers"))

            await until(there, seconds=30)
            yield engine, path
    finally:
        for daemon in daemons:
            daemon.stop()


async def doctor(path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "taskengine", "doctor", "--json", "--config", str(path)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def _work(engine: TaskEngine, count: int) -> None:
    for _ in range(count):
        await engine.dispatch_many([plain.call() for _ in range(100)])
        await engine.dispatch_many([flaky.call(), sleepy.call()])
        await engine.dispatch_many([plain.call() for _ in range(10)], delay=0.5)
        await asyncio.sleep(0.05)


async def test_nothing_is_found_while_real_daemons_work(
    own_servers: EmbeddedServers, tmp_path: Path
) -> None:
    async with running(own_servers, tmp_path) as (engine, path):
        working = asyncio.create_task(_work(engine, 10_000))
        try:
            for _ in range(_LOOKS):
                assert (await doctor(path))["findings"] == []
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        async with engine.parts.store.connection() as c:
            done = await c.fetchval(
                "select count(*) from task_executions where state = 'succeeded'"
            )
        assert done > 500


async def test_a_key_of_a_wrong_type_heals_by_itself(
    own_servers: EmbeddedServers, tmp_path: Path
) -> None:
    async with running(own_servers, tmp_path) as (engine, path):
        for kind in (engine.parts.keys.queue, engine.parts.keys.processing):
            key = kind("default")
            await engine.parts.client.commands([("DEL", key), ("RPUSH", key, "a", "b")])
            sent = await engine.dispatch(plain.call())
            assert (await engine.wait(sent.execution_id, 30)).state == "succeeded"
        assert (await doctor(path))["findings"] == []
