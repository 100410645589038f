"""The commands as real processes beside a real daemon, from an empty database to the drain."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskengine.config import Config
from tests.cli.conftest import Shell, environment

_JOBS = """
from taskengine.model.context import JobContext
from taskengine.model.function_job import job


@job("greet", queue="high", max_attempts=1)
async def greet(ctx: JobContext, name: str) -> None:
    ctx.log("info", f"hello {name}")
    if name == "nobody":
        raise ValueError("nobody is there")
"""


@pytest.fixture
def env(config: Config) -> dict[str, str]:
    more = {"TASKENGINE_WEB__PORT": "0", "TASKENGINE_WORKERS__LOCK_DIR": "locks"}
    return environment(config) | more


@pytest.fixture
def daemon(shell: Shell, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """`taskengine run`; the job's module lies in the folder that it is started in."""
    (shell.folder / "greetings.py").write_text(_JOBS)
    (shell.folder / "config.toml").write_text('[jobs]\nmodules = ["greetings"]\n')
    assert shell("migrate", "up", env=env).status == 0
    run = [sys.executable, "-m", "taskengine", "run"]
    with Path(shell.folder / "log").open("wb") as log:
        process = subprocess.Popen(run, cwd=shell.folder, env=shell.environ(env), stderr=log)
    yield process
    process.kill()
    process.wait()


async def test_a_job_from_the_command_line_to_its_end(
    daemon: subprocess.Popen[bytes], shell: Shell, env: dict[str, str]
) -> None:
    async def run(*args: object) -> tuple[int, str, str]:
        return await asyncio.to_thread(lambda: shell(*args, env=env))

    async with asyncio.timeout(30):
        while (await run("status"))[0] != 0:
            assert daemon.poll() is None
    status, out, _ = await run("dispatch", "greet", "-p", '{"name": "you"}', "--wait", 30, "--json")
    assert (status, '"state": "succeeded"' in out) == (0, True)
    status, out, _ = await run("dispatch", "greet", "-p", '{"name": "nobody"}', "--wait", 30)
    assert (status, "failed" in out) == (1, True)
    status, out, _ = await run("executions", "list", "--job", "greet")
    assert [line.split()[3] for line in out.splitlines()[1:]] == ["failed", "succeeded"]
    failed = out.splitlines()[1].split()[0]
    status, out, _ = await run("executions", "show", failed)
    assert "ValueError: nobody is there" in out
    assert "hello nobody" in out
    assert (await run("executions", "redrive", failed))[0] == 0
    daemon.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(daemon.wait, 30) == 0
    status, out, _ = await run("status")
    assert (status, out.split(" ")[0]) == (1, "down")
