"""`taskengine ctl` and a control socket that answers as a test has it; a real daemon: `tests/system`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

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


def status(name: str) -> dict[str, Any]:
    """What a daemon of this name says."""
    words = {"name": name, "version": "1", "state": "ready", "status": "0 of 9 slots busy"}
    since = {"since": "2026-11-02T12:00:00+00:00", "worker_id": 7, "running": []}
    return {"ok": True, **words, **since}


async def test_its_place_is_that_of_the_option_of_the_configuration_of_systemd(
    control: Control, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What else is wrong with the configuration is for the daemon to say."""
    control.verbs = {"status": lambda: status("here/1")}
    here, config = tmp_path / "control.sock", tmp_path / "config.toml"
    config.write_text(f'[workers]\ncontrol_socket = "{here}"\nslots = "none"')
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "nobody"))
    for named in (("--socket", here), ("--config", config)):
        result = await cli("ctl", "status", *named)
        assert result.out == (
            "here/1 (worker 7, 1, since 2026-11-02 12:00:00Z) · ready · 0 of 9 slots busy\n"
        )
    config.write_text("[workers]\nslots =")
    assert (await cli("ctl", "status", "--config", config)).status == 3
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    assert (await cli("ctl", "status", "--config", config)).status == 0


async def test_an_instance_has_a_folder_of_its_own(cli: Cli) -> None:
    result = await cli("ctl", "status", "--instance", "nobody-at-all")
    assert result.status == 3
    assert "no daemon listens at /run/taskengine-nobody-at-all/control.sock" in result.err


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
