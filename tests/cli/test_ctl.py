"""`taskengine ctl` and a control socket that answers as a test has it; a real daemon: `tests/system`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskengine.services.control import Control
from tests.cli.conftest import Cli


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    """At `control.sock` of the folder."""
    control = Control(tmp_path / "control.sock")
    ready = asyncio.Event()
    running = asyncio.create_task(control.run(ready.set))
    await ready.wait()
    yield control
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_who_waits_for_a_daemon_that_is_restarted_is_not_told_that_it_is_drained(
    control: Control, cli: Cli, tmp_path: Path
) -> None:
    control.verbs = {
        "drain": lambda: {"ok": True, "left": 1},
        "status": lambda: {"ok": True, "state": "ready", "left": 0, "idle": True},
    }
    result = await cli("ctl", "drain", "--wait", "--socket", tmp_path / "control.sock")
    assert (result.status, result.out) == (4, "")
    assert "was restarted meanwhile" in result.err
