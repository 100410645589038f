"""The control socket, by a client of this test's own."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from taskengine.services import control as module
from taskengine.services.control import Control
from tests.support.make import Told
from tests.support.until import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "control.sock"


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[Control]:
    control = Control(path)
    control.verbs = {"status": lambda: {"ok": True, "asked": True}}
    ready = asyncio.Event()
    running = asyncio.create_task(control.run(ready.set))
    await ready.wait()
    try:
        yield control
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def say(path: Path, said: bytes, *, ends: bool = True) -> bytes:
    """What is answered; `ends`: nothing more will be said."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(said)
    if ends:
        writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()


async def ask(path: Path) -> Any:
    return json.loads(await say(path, b'{"verb": "status"}\n', ends=False))


async def test_it_answers_and_the_file_is_its_owners_alone(path: Path) -> None:
    async with listening(path):
        assert await ask(path) == {"ok": True, "asked": True}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


@pytest.mark.parametrize(
    "said",
    [
        b"\n",
        b"status\n",
        b"{}\n",
        b"[1]\n",
        b'{"verb": ["status"]}\n',
        b'{"verb": "stop"}\n',
        b"\xff\n",
    ],
)
async def test_nonsense_is_told_what_there_is(path: Path, said: bytes) -> None:
    async with listening(path):
        answer = json.loads(await say(path, said))
        assert answer == {"ok": False, "error": "one of these is asked for: status"}


@pytest.mark.parametrize("said", [b"x" * 100_000, b"x" * 100_000 + b"\n", b"[" * 4000 + b"\n"])
async def test_who_says_too_much_harms_nobody(path: Path, said: bytes) -> None:
    async with listening(path):
        with suppress(ConnectionError):
            await say(path, said)
        assert (await ask(path))["asked"]


async def test_who_says_nothing_is_let_go_and_holds_up_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.5)
    async with listening(path):
        silent = asyncio.create_task(say(path, b'{"verb"', ends=False))
        answers = await asyncio.gather(*(ask(path) for _ in range(50)))
        assert all(each["asked"] for each in answers)
        assert await silent == b""


async def test_a_file_that_a_dead_daemon_left_is_replaced(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    async with listening(path):
        assert (await ask(path))["asked"]


async def test_another_daemons_socket_is_left_alone(path: Path, told: Told) -> None:
    async with listening(path) as first:
        async with listening(path):
            assert [each["path"] for each in told.of("control.unavailable")] == [str(path)]
        first.verbs = {"status": lambda: {"asked": "the first"}}
        assert await ask(path) == {"asked": "the first"}


async def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "somebodys"
    path.write_text("precious")
    async with listening(path):
        assert [each["path"] for each in told.of("control.unavailable")] == [str(path)]
    assert path.read_text() == "precious"


async def test_without_a_place_it_is_told_and_the_daemon_goes_on(
    tmp_path: Path, told: Told
) -> None:
    async with listening(tmp_path / ("x" * 120)):
        await until(lambda: told.of("control.unavailable"))
