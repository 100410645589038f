"""Show 5 of the engine: ten thousand jobs through SIGKILL, FLUSHALL, a lost key and a restart.

All are settled once. An observer that is not the engine's (a trigger) keeps one row for each move
out of running, unique by (execution, claim).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskengine import TaskEngine
from taskengine.config import Config
from taskengine.embedded import EmbeddedServers
from taskengine.lifecycle.definitions import sync
from taskengine.lifecycle.rebuild import remember
from taskengine.store import migrate
from tests.support.daemon import Daemon
from tests.system.storm_jobs import storm

pytestmark = pytest.mark.slow

_JOBS = 10_000
_SLOTS = 50
_LIMIT = 240.0

_CONFIG = """
[postgres]
dsn = "{dsn}"
[redis]
url = "{redis}"
[jobs]
modules = ["tests.system.storm_jobs"]
[web]
port = 0
[workers]
slots = {slots}
"""

_OBSERVER = """
create table settled (execution_id bigint, fence bigint, state text, primary key (execution_id, fence));
create function observe() returns trigger language plpgsql as $$
begin
  insert into settled values (old.id, old.fence, new.state);
  return null;
end $$;
create trigger observe after update on task_executions for each row
  when (old.state = 'running' and new.state <> 'running') execute function observe();
"""


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[EmbeddedServers]:
    """A pair of its own: this test restarts Postgres and empties Redis."""
    servers = EmbeddedServers(tmp_path)
    yield servers
    servers.remove()


async def test_ten_thousand_jobs_survive_the_storm(
    own_servers: EmbeddedServers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = own_servers.start()
    path = tmp_path / "storm.toml"
    path.write_text(_CONFIG.format(dsn=told.dsn, redis=told.redis_url, slots=_SLOTS))
    config = Config.load(path)
    await migrate.up(config.postgres)
    async with TaskEngine(config) as engine:
        await sync(engine.parts)
        await remember(engine.parts)
        async with engine.parts.store.connection() as c:
            await c.execute(_OBSERVER)
        rng = random.Random(5)
        calls = [storm.call(milliseconds=rng.randint(50, 100)) for _ in range(_JOBS)]
        await engine.dispatch_many(calls)
        daemon = Daemon(path, tmp_path / "daemon.log")
        daemon.start()
        try:
            await _faults(engine, own_servers, daemon)
            last_fault = time.monotonic()
            await _until_settled(engine)
            took = time.monotonic() - last_fault
        finally:
            daemon.stop()
        await _check(engine)
    with capsys.disabled():
        print(f"\nstorm: {took:.1f} s from the last fault to the last settlement")


async def _faults(engine: TaskEngine, servers: EmbeddedServers, daemon: Daemon) -> None:
    """Five SIGKILLs, two FLUSHALLs, one key deleted, one restart of Postgres, while it works."""
    keys = engine.parts.keys

    async def kill() -> None:
        await asyncio.to_thread(daemon.kill)
        daemon.start()

    async def flush() -> None:
        await engine.parts.client.command("FLUSHALL")

    async def delete() -> None:
        await engine.parts.client.command("DEL", keys.queue("default"))

    async def restart() -> None:
        await asyncio.to_thread(servers.restart_postgres)

    for fault in (kill, flush, kill, delete, kill, restart, flush, kill, kill):
        await _some_settled(engine)
        await fault()


async def _some_settled(engine: TaskEngine, count: int = 300) -> None:
    """Let the daemon get somewhere before the next fault."""
    goal = min(_JOBS, await _settled(engine) + count)
    end = time.monotonic() + 120  # a deleted key is found by the divergence loop, each 60 s
    while await _settled(engine) < goal:
        assert time.monotonic() < end, "nothing moves any more"
        await asyncio.sleep(0.1)


async def _until_settled(engine: TaskEngine) -> None:
    end = time.monotonic() + _LIMIT
    while (done := await _settled(engine)) < _JOBS:
        assert time.monotonic() < end, f"{done} of {_JOBS} after {_LIMIT} s"
        await asyncio.sleep(0.2)


async def _settled(engine: TaskEngine) -> int:
    return int(
        await _value(engine, "select count(*) from task_executions where state = 'succeeded'")
    )


async def _check(engine: TaskEngine) -> None:
    """All succeeded, each settled as succeeded once, and Redis holds no id of them."""
    assert await _settled(engine) == _JOBS
    succeeded = "select count(*) from settled where state = 'succeeded'"
    assert await _value(engine, succeeded) == _JOBS
    once = "select count(distinct execution_id) from settled where state = 'succeeded'"
    assert await _value(engine, once) == _JOBS
    running_or_worse = (
        "select count(*) from task_executions where job = 'storm' and state <> 'succeeded'"
    )
    assert await _value(engine, running_or_worse) == 0
    for depth in (await engine.parts.queues.depths()).values():
        assert sum(depth) == 0


async def _value(engine: TaskEngine, statement: str) -> int:
    """One number, whether or not Postgres is being restarted."""
    while True:
        try:
            async with engine.parts.store.connection() as c:
                return int(await c.fetchval(statement))
        except Exception:
            await asyncio.sleep(0.2)
