"""`[redis] enabled = false`: a real daemon, end to end, that never so much as knocks at Redis."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from taskengine import State, TaskEngine
from taskengine.config import Config
from taskengine.embedded import Servers
from taskengine.lifecycle.definitions import sync
from taskengine.store import migrate, stores
from tests.support.daemon import Daemon
from tests.support.webhooks import KEY, event, signed
from tests.system.direct_jobs import of_a_store, plain, second_time

pytestmark = pytest.mark.slow

SOON = 20.0  # seconds that something may take, at the most

_CONFIG = """
[postgres]
dsn = "{dsn}"
schema = "direct"
[redis]
enabled = false
url = "redis://127.0.0.1:{redis}/0"
[jobs]
modules = ["tests.system.direct_jobs"]
[web]
port = {web}
[workers]
slots = 20
[webhooks.sources.everee]
scheme = "everee"
keys = ["{key}"]
job = "payroll-event"
"""


@pytest.fixture
def redis() -> Iterator[socket.socket]:
    """Where Redis would be: whoever knocks there is heard."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        yield listening


@pytest.fixture
def web() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def path(servers: Servers, redis: socket.socket, web: int, tmp_path: Path) -> Path:
    path = tmp_path / "direct.toml"
    port = redis.getsockname()[1]
    path.write_text(_CONFIG.format(dsn=servers.dsn, redis=port, web=web, key=KEY))
    return path


async def test_everything_works_without_redis(
    path: Path, redis: socket.socket, web: int, tmp_path: Path
) -> None:
    config, log = Config.load(path), tmp_path / "log"
    await migrate.up(config.postgres)
    async with TaskEngine(config) as engine:
        await sync(engine.parts)
        async with engine.parts.store.connection() as c:
            for number in ("1", "2"):
                await stores.add(c, number, f"Store {number}", "UTC", None)
        with Daemon(path, log):
            await _ready(web)
            await _dispatched(engine)
            await _received(engine, web)
            await _fired(engine)
            shown = await asyncio.to_thread(_status, path)
            metrics = await _get(web, "/metrics")
    assert (shown["status"], shown["problems"], shown["notes"]) == ("healthy", [], [])
    assert [each["direct"] for each in shown["daemons"]] == [True]
    assert "taskengine_direct_mode 1.0" in metrics
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["event"] for each in lines if "redis" in str(each).lower()] == ["broker.off"]
    wrong = {each["event"] for each in lines if each["level"] in ("warning", "error")}
    asleep = {"process.overslept", "schedule.missed"}  # where the machine is too busy
    assert wrong - asleep == {"execution.retried"}
    with pytest.raises(BlockingIOError):
        redis.accept()


async def _dispatched(engine: TaskEngine) -> None:
    """At once, many, later, by store, and again after a failure."""
    now = await engine.dispatch(plain.call(7))
    later = await engine.dispatch(plain.call(8), delay=timedelta(seconds=2))
    failing = await engine.dispatch(second_time.call())
    many = await engine.dispatch_many([plain.call(number) for number in range(300)])
    each = await engine.dispatch_stores(of_a_store.call(), key="all")
    assert not now.delivered
    for sent in (now, later, failing, *many, *each):
        assert (await engine.wait(sent.execution_id, SOON)).state is State.SUCCEEDED
    delayed = await engine.get(later.execution_id)
    assert delayed is not None
    assert delayed.claimed_at is not None
    assert delayed.claimed_at >= delayed.run_at
    retried = await engine.get(failing.execution_id)
    assert retried is not None
    assert (retried.attempt, retried.result) == (2, "2")


async def _received(engine: TaskEngine, web: int) -> None:
    """A webhook is stored, dispatched and processed."""
    body = event()
    async with httpx.AsyncClient() as client:
        url, headers = f"http://127.0.0.1:{web}/webhooks/everee", signed(body, int(time.time()))
        answer = await client.post(url, content=body, headers=headers)
    assert answer.is_success
    await _until(engine, "select count(*) from webhook_events where processed_at is not null", 1)


async def _fired(engine: TaskEngine) -> None:
    """Every second."""
    fired = "select count(*) from task_executions where job = 'every-second'"
    await _until(engine, f"{fired} and state = 'succeeded'", 3)


async def _until(engine: TaskEngine, counting: str, count: int) -> None:
    end = time.monotonic() + SOON
    while True:
        async with engine.parts.store.connection() as c:
            found = await c.fetchval(counting)
        if found >= count:
            return
        assert time.monotonic() < end, f"{found} of {count}: {counting}"
        await asyncio.sleep(0.1)


async def _ready(web: int) -> None:
    end = time.monotonic() + SOON
    while not await _get(web, "/readyz"):
        assert time.monotonic() < end
        await asyncio.sleep(0.1)


async def _get(web: int, path: str) -> str:
    """What it says; nothing while it is not there, or says no."""
    try:
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{web}{path}")
    except httpx.TransportError:
        return ""
    return answer.text if answer.is_success else ""


def _status(path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "taskengine", "status", "--json", "--config", str(path)]
    answer = subprocess.run(command, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found
