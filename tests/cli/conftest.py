"""The command line against the servers of the test: in this process (quick), or as a real one."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from taskengine.cli.main import main
from taskengine.config import Config


class Result(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """What `--json` printed: each line an object."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def object(self) -> dict[str, Any]:
        (only,) = self.objects
        return only


def environment(config: Config) -> dict[str, str]:
    """What names the stores of this test to a command."""
    dsn = config.postgres.dsn
    assert dsn is not None
    return {
        "TASKENGINE_POSTGRES__DSN": dsn.get_secret_value(),
        "TASKENGINE_POSTGRES__SCHEMA": config.postgres.schema_name,
        "TASKENGINE_REDIS__URL": config.redis.url.get_secret_value(),
        "TASKENGINE_REDIS__PREFIX": config.redis.prefix,
    }


class Cli:
    """Runs commands in this process, in a thread with a loop of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._patch = patch

    async def __call__(self, *args: object, stdin: bytes = b"") -> Result:
        return await asyncio.to_thread(self.now, *args, stdin=stdin)

    def now(self, *args: object, stdin: bytes = b"") -> Result:
        self._patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        self._capsys.readouterr()
        status = main([str(arg) for arg in args])
        out, err = self._capsys.readouterr()
        return Result(status, out, err)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own, and nothing in the environment that says anything."""
    for name in os.environ:
        if name.startswith("TASKENGINE_") or name == "CREDENTIALS_DIRECTORY":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def bare(alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The commands, told of no store."""
    return Cli(capsys, monkeypatch)


@pytest.fixture
def cli(bare: Cli, config: Config, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The commands, told of the test's stores."""
    for name, value in environment(config).items():
        monkeypatch.setenv(name, value)
    return bare


class Shell:
    """Runs commands as real processes, in the test's folder."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        # Byte code is kept during the run, wherever the interpreter is told not to write any.
        self._more = {"PYTHONPYCACHEPREFIX": str(cache), "PYTHONDONTWRITEBYTECODE": ""}

    def environ(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, **self._more, **more}

    def __call__(
        self, *args: object, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "taskengine", *map(str, args)],
            input=stdin,
            check=False,
            capture_output=True,
            cwd=self.folder,
            env=self.environ(env or {}),
            timeout=60,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def shell(alone: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(alone, tmp_path_factory.getbasetemp() / "bytecode")
