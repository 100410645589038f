"""A real daemon whose log nobody reads: it works, beats and ends as ever, and counts what it lost."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from taskengine import TaskEngine
from taskengine.config import Config
from taskengine.embedded import Servers
from taskengine.store import migrate
from tests.support.daemon import Daemon
from tests.support.until import until
from tests.system.host import free_port
from tests.system.slow_jobs import slow

pytestmark = pytest.mark.slow

_CONFIG = """
[engine]
queues = ["high", "low"]
[postgres]
dsn = "{dsn}"
schema = "blocked_log"
[redis]
url = "{redis}"
prefix = "blocked_log"
[jobs]
modules = ["tests.system.slow_jobs"]
[web]
port = {port}
[logs]
level = "debug"
format = "json"
"""
_JOBS = 3000  # some entries each, of which a pipe and the backlog hold fewer


async def test_a_pipe_that_nobody_reads(servers: Servers, tmp_path: Path) -> None:
    path, port = tmp_path / "blocked.toml", free_port()
    path.write_text(_CONFIG.format(dsn=servers.dsn, redis=servers.redis_url, port=port))
    config = Config.load(path)
    await migrate.up(config.postgres)
    reading, writing = os.pipe()
    process = subprocess.Popen(Daemon(path).command(), stderr=writing, start_new_session=True)
    os.close(writing)
    try:
        async with TaskEngine(config) as engine:
            await until(lambda: _ready(port), 60)
            await engine.dispatch_many([slow.call() for _ in range(_JOBS)])
            await until(lambda: _succeeded(engine), 60)
            await _check_beat(engine)
        assert await until(lambda: _dropped(port), 30)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(reading)


async def _ready(port: int) -> bool:
    try:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"http://127.0.0.1:{port}/readyz")).is_success
    except httpx.TransportError:
        return False


async def _succeeded(engine: TaskEngine) -> bool:
    async with engine.parts.store.connection() as c:
        text = "select count(*) from task_executions where state = 'succeeded'"
        return bool(await c.fetchval(text) == _JOBS)


async def _check_beat(engine: TaskEngine) -> None:
    text = "select max(beat) from task_workers where dead_at is null"
    async with engine.parts.store.connection() as c:
        before = await c.fetchval(text)

    async def beaten() -> bool:
        async with engine.parts.store.connection() as c:
            return bool(await c.fetchval(text) > before)

    await until(beaten, 30)


async def _dropped(port: int) -> float:
    async with httpx.AsyncClient() as client:
        page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    (value,) = re.findall(r"^taskengine_log_records_dropped_total (\S+)$", page, re.MULTILINE)
    return float(value)
