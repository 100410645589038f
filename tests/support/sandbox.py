"""A real systemd and a real journald in namespaces of their own, as a context manager.

Guarantees: it is gone when the block is left, and when this process is gone, however it died;
what was installed in it is gone with it. Its network is this machine's, loopback included.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from taskengine.embedded.processes import Watcher
from tests.embedded.test_users import need

_SCRIPT = Path(__file__).parent / "systemd-sandbox"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOT_OURS = ("TASKENGINE_", "PYTHON", "VIRTUAL")
_SECONDS = 300


class Sandbox:
    """`state`: a folder that will hold what the boot said; not below /tmp, which it has its own."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._watcher: Watcher | None = None

    def start(self) -> None:
        need(os.geteuid() == 0, "root: sudo ./tests/run --all")
        need(Path("/lib/systemd/systemd").exists(), "systemd: apt-get install -y systemd")
        subprocess.run([_SCRIPT, "start", self._state], check=True)
        pid = int((self._state / "pid").read_text())
        self._watcher = Watcher(pid, signal.SIGKILL)

    def stop(self) -> None:
        """Its first process is killed, and with it the kernel ends all the others."""
        subprocess.run([_SCRIPT, "stop", self._state], check=True)
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None

    def exec(self, *command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        """A command inside, as root; nothing of ours is inherited but the way to the packages."""
        words = [str(_SCRIPT), "exec", str(self._state), *map(str, command)]
        env = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)}
        return subprocess.run(
            words,
            env=env | {"PATH": _PATH} | environ,
            text=True,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()
