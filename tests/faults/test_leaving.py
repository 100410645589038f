"""The daemon ends when it is asked to and only then, whatever its jobs do."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from taskengine import TaskEngine
from taskengine.config import Config
from taskengine.embedded import Servers
from taskengine.lifecycle.definitions import sync
from taskengine.lifecycle.rebuild import remember
from taskengine.model.job import Call
from taskengine.store import migrate
from tests.faults import fault_jobs as jobs
from tests.support.daemon import Daemon
from tests.support.until import until

pytestmark = pytest.mark.slow

_CONFIG = """
[postgres]
dsn = "{dsn}"
schema = "{name}"
[redis]
url = "{redis}"
prefix = "{name}"
[jobs]
modules = ["tests.faults.fault_jobs"]
[web]
enabled = false
[workers]
slots = 5
drain_timeout = 0
"""


@asynccontextmanager
async def engine(
    servers: Servers, folder: Path, name: str
) -> AsyncIterator[tuple[Path, TaskEngine]]:
    """An installation of its own: its configuration, and a client."""
    path = folder / f"{name}.toml"
    path.write_text(_CONFIG.format(dsn=servers.dsn, redis=servers.redis_url, name=name))
    config = Config.load(path)
    await migrate.up(config.postgres)
    async with TaskEngine(config) as client:
        await sync(client.parts)
        await remember(client.parts)
        yield path, client


async def count(client: TaskEngine, condition: str) -> int:
    async with client.parts.store.connection() as c:
        return int(await c.fetchval(f"select count(*) from task_executions where {condition}"))


def ending(daemon: Daemon) -> int | None:
    """Its exit status after SIGTERM; None where it does not end in 30 s, and is killed."""
    daemon.send(signal.SIGTERM)
    try:
        return daemon._running().wait(30)
    except subprocess.TimeoutExpired:
        daemon.kill()
        return None


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("swallows", jobs.swallows.call),
        ("holds", jobs.holds_a_thread.call),
        ("awaits", jobs.awaits_a_thread.call),
        ("leaves", jobs.leaves_a_task.call),
        ("spawns", jobs.leaves_a_thread.call),
    ],
)
async def test_nothing_that_jobs_leave_behind_keeps_the_process(
    servers: Servers, tmp_path: Path, name: str, call: Callable[[], Call]
) -> None:
    async with engine(servers, tmp_path, f"leaving_{name}") as (path, client):
        await client.dispatch(call())
        daemon = Daemon(path, tmp_path / "daemon.log")
        daemon.start()
        await until(lambda: count(client, "state in ('running', 'succeeded')"))
        assert await asyncio.to_thread(ending, daemon) == 0
        text = (tmp_path / "daemon.log").read_text()
        assert '"process.stopped"' in text
        if name in ("swallows", "holds"):
            assert '"execution.left_running"' in text


async def test_sys_exit_in_a_task_of_a_job_ends_the_job_alone(
    servers: Servers, tmp_path: Path
) -> None:
    async with engine(servers, tmp_path, "leaving_exits") as (path, client):
        daemon = Daemon(path, tmp_path / "daemon.log")
        daemon.start()
        for _ in range(2):
            await client.dispatch(jobs.exits_in_a_child.call())
            await client.dispatch(jobs.naps.call(0.3))
        await until(lambda: count(client, "finished_at is not null and job <> 'naps'"))
        await until(lambda: _both(client))
        assert await asyncio.to_thread(ending, daemon) == 0
        assert "SystemExit" in (tmp_path / "daemon.log").read_text()


async def _both(client: TaskEngine) -> bool:
    failed = await count(client, "job = 'exits-in-a-child' and state = 'failed'")
    return failed == 2 and await count(client, "job = 'naps' and state = 'succeeded'") == 2


async def test_a_sigterm_before_the_first_answer_of_postgres_is_heeded(
    servers: Servers, tmp_path: Path
) -> None:
    path = tmp_path / "early.toml"
    away = "postgresql://nobody@127.0.0.1:1/none"
    path.write_text(_CONFIG.format(dsn=away, redis=servers.redis_url, name="leaving_early"))
    log = tmp_path / "daemon.log"
    daemon = Daemon(path, log)
    daemon.start()
    await until(lambda: log.exists() and "process.waiting" in log.read_text())
    assert await asyncio.to_thread(ending, daemon) == 0
