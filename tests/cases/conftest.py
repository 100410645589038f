"""The ground that cases about processes stand on, and the command line."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from taskengine.config import Config
from taskengine.lifecycle.parts import Parts
from tests.cases.support import Ground, case_registry
from tests.cli.conftest import Cli, environment


@pytest_asyncio.fixture
async def ground(parts: Parts, tmp_path: Path) -> AsyncIterator[Ground]:
    """The jobs of `case_jobs`, and daemons that run them."""
    for handle in case_registry():
        parts.registry.add(handle)
    ground = await Ground(parts, tmp_path).open()
    yield ground
    ground.end()


@pytest.fixture
def cli(
    tmp_path: Path,
    config: Config,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Cli:
    """The commands, told of the test's stores and of nothing else."""
    for name in os.environ:
        if name.startswith("TASKENGINE_"):
            monkeypatch.delenv(name)
    for name, value in environment(config).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return Cli(capsys, monkeypatch)
