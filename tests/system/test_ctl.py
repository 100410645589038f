"""`taskengine ctl` and a real daemon: how it stands, a reload, a drain; and what it says of none."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from taskengine import TaskEngine
from taskengine.config import Config
from taskengine.embedded import Servers
from taskengine.store import migrate
from tests.support.daemon import Daemon
from tests.support.until import until
from tests.system.slow_jobs import slow

pytestmark = pytest.mark.slow

_CONFIG = """
[engine]
queues = ["high", "low"]
[postgres]
dsn = "{dsn}"
schema = "ctl"
[redis]
url = "{redis}"
prefix = "ctl"
[jobs]
modules = ["tests.system.slow_jobs"]
[web]
port = 0
[workers]
slots = 50
"""


class Ctl:
    """The command, asking in this runtime directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config.toml"

    async def __call__(self, *words: str) -> tuple[int, str, str]:
        """(exit status, stdout, stderr)."""
        command = [sys.executable, "-m", "taskengine", "ctl", *words]
        socket = ["--socket", str(self.folder / "control.sock")]
        done = await asyncio.to_thread(
            subprocess.run, [*command, *socket], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    async def status(self) -> Any:
        return json.loads((await self("status", "--json"))[1])


@pytest_asyncio.fixture
async def engine(servers: Servers, tmp_path: Path) -> AsyncIterator[TaskEngine]:
    path = tmp_path / "config.toml"
    path.write_text(_CONFIG.format(dsn=servers.dsn, redis=servers.redis_url))
    config = Config.load(path)
    await migrate.up(config.postgres)
    async with TaskEngine(config) as engine:
        yield engine
        async with engine.parts.store.connection() as c:
            await c.execute("truncate task_executions cascade")


async def state(engine: TaskEngine, execution_id: int) -> tuple[str, int]:
    async with engine.parts.store.connection() as c:
        row = await c.fetchrow(
            "select state, attempt + interruptions from task_executions where id = $1", execution_id
        )
    assert row is not None
    return (row[0], row[1])


async def test_status_reload_drain(engine: TaskEngine, tmp_path: Path) -> None:
    ctl = Ctl(tmp_path)
    daemon = Daemon(ctl.config, tmp_path / "daemon.log", {"RUNTIME_DIRECTORY": str(tmp_path)})
    with daemon:
        await until((tmp_path / "control.sock").exists, 60)
        await _check_status(ctl, daemon, await _begin(engine, 3))
        await _check_reload(ctl)
        last = await _begin(engine, 5)
        assert (await ctl("drain"))[0] == 0
        late = await engine.dispatch(slow.call())
        assert (await ctl("drain", "--wait", "--timeout", "0"))[0] == 75
        assert (await ctl("drain", "--timeout", "0.1"))[0] == 75
        assert (await ctl("drain", "--wait"))[0] == 0
        assert await state(engine, last) == ("succeeded", 1)
        found = await ctl.status()
        assert found["state"] == "draining"
        assert found["status"].startswith("drained: nothing runs")
        assert await state(engine, late.execution_id) == ("pending", 1)
    assert not (tmp_path / "control.sock").exists()


async def _begin(engine: TaskEngine, seconds: float) -> int:
    """An execution that runs for so long."""
    sent = (await engine.dispatch(slow.call(seconds=seconds))).execution_id

    async def runs() -> bool:
        return (await state(engine, sent))[0] == "running"

    await until(runs, 60)
    return sent


async def _check_status(ctl: Ctl, daemon: Daemon, execution_id: int) -> None:
    found = await ctl.status()
    assert (found["state"], found["slots"], found["busy"], found["left"]) == ("ready", 50, 1, 1)
    assert str(found["name"]).endswith(f"/{daemon.pid}")
    assert (found["pid"], found["postgres"], found["redis"]) == (daemon.pid, "up", "up")
    (running,) = found["running"]
    assert (running["id"], running["task"], running["attempt"]) == (execution_id, "slow", 1)
    assert {"worker", "promoter", "scheduler"} <= set(found["loops"])
    status, text, _ = await ctl("status")
    assert status == 0
    assert "1 of 50 slots busy" in text
    assert text.splitlines()[-1].split()[:4] == [str(execution_id), "slow", "high", "1"]


async def _check_reload(ctl: Ctl) -> None:
    """What may change is taken in, also back again; the rest is named; a bad file is refused whole."""
    good = ctl.config.read_text()
    ctl.config.write_text(good.replace("slots = 50", "slots = 60").replace("port = 0", "port = 1"))
    status, text, note = await ctl("reload")
    assert (status, text) == (0, "taken in: workers.slots = 60\n")
    assert "needs a restart: web.port" in note
    ctl.config.write_text(good.replace("slots = 50", "slots = 9999"))
    status, text, note = await ctl("reload")
    assert (status, text) == (78, "")
    assert "workers.slots" in note
    assert (await ctl.status())["slots"] == 60
    ctl.config.write_text(good)
    assert (await ctl("reload"))[:2] == (0, "taken in: workers.slots = 50\n")


async def test_before_it_is_ready_it_says_so_and_a_reload_says_nothing_to_systemd(
    engine: TaskEngine, tmp_path: Path
) -> None:
    """READY is not for a reload to say: systemd would take the start for over."""
    ctl = Ctl(tmp_path)
    with ctl.config.open("a") as file:
        file.write(f'control_socket = "{tmp_path}/control.sock"\n')
    with listening(tmp_path / "notify") as said:
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        daemon = Daemon(ctl.config, tmp_path / "daemon.log", environ)
        try:
            async with engine.parts.store.transaction() as c:
                await c.execute("lock table task_workers in access exclusive mode")  # no joining
                daemon.start()
                await _check_starting(ctl)
            await until(lambda: "READY=1" in said(), 60)
            assert (await ctl.status())["state"] == "ready"
            assert (await ctl("reload"))[0] == 0
        finally:
            daemon.stop()
        words = [each.split("\n")[0] for each in said()]
        told = [word for word in words if word.startswith(("READY", "RELOADING", "STOPPING"))]
        assert told == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]


async def _check_starting(ctl: Ctl) -> None:
    await until((ctl.folder / "control.sock").exists, 60)
    assert (await ctl.status())["state"] == "starting"
    assert (await ctl("reload"))[0] == 0


@contextmanager
def listening(path: Path) -> Iterator[Callable[[], list[str]]]:
    """As systemd does; all that was said so far."""
    said = list[str]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(path))
        end.setblocking(False)

        def so_far() -> list[str]:
            with suppress(BlockingIOError):
                while True:
                    said.append(end.recv(4096).decode())
            return said

        yield so_far


async def test_where_no_daemon_listens(tmp_path: Path) -> None:
    status, text, note = await Ctl(tmp_path)("status")
    assert (status, text) == (3, "")
    assert "no daemon listens at" in note
