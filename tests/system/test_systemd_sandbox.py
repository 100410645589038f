"""The sandbox of these tests leaves nothing behind, not even when the tests are killed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskengine.embedded.processes import start_ticks, until
from tests.support.sandbox import Sandbox

pytestmark = pytest.mark.system

_OWNER = """
import sys, time
from pathlib import Path
from tests.support.sandbox import Sandbox
with Sandbox(Path(sys.argv[1])):
    print("booted", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="taskengine-sandbox-", dir="/srv"))
    yield folder
    shutil.rmtree(folder)


def test_what_is_done_in_it_is_gone_with_it(folder: Path) -> None:
    with Sandbox(folder) as sandbox:
        pid = int((folder / "pid").read_text())
        assert sandbox.exec("systemctl", "is-system-running", "--wait").stdout.strip() == "running"
        assert sandbox.exec("journalctl", "-n", "1").returncode == 0
        assert sandbox.exec("touch", "/etc/of-the-sandbox").returncode == 0
        assert sandbox.exec("ls", "/etc/of-the-sandbox").returncode == 0
    assert until(lambda: start_ticks(pid) is None, 20)
    assert not Path("/etc/of-the-sandbox").exists()


def test_it_ends_with_the_process_that_has_started_it(folder: Path) -> None:
    command = [sys.executable, "-c", _OWNER, str(folder)]
    root = Path(__file__).parents[2]
    environ = {"PYTHONPATH": f"{root / 'daemon'}:{root}", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "booted\n"
        pid = int((folder / "pid").read_text())
        assert start_ticks(pid) is not None
        owner.send_signal(signal.SIGKILL)
    assert until(lambda: start_ticks(pid) is None, 20)
