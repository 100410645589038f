"""A real daemon in a process of its own: started, killed, stopped; and what it costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS = 90


class Daemon:
    """`taskengine run`; its log goes to a file, or to our own standard error."""

    def __init__(
        self, config: Path, log: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._config = config
        self._log = log
        self._environ = {**os.environ, **(environ or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        return [sys.executable, "-m", "taskengine", "run", "--config", str(self._config)]

    def start(self) -> None:
        log = self._log.open("ab") if self._log is not None else None
        try:
            self._process = subprocess.Popen(
                self.command(), env=self._environ, stderr=log, start_new_session=True
            )
        finally:
            if log is not None:
                log.close()

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self.send(signal.SIGKILL)
        self._running().wait()

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        if self._running().poll() is None:
            self.send(signal.SIGTERM)
        return self._running().wait(_STOP_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    def cpu(self) -> float:
        """CPU seconds used so far, by user and system."""
        stat = self._proc("stat").rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / _TICKS

    def rss(self) -> float:
        """Resident memory in MB."""
        return int(self._proc("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def _proc(self, name: str) -> str:
        status = self._running().poll()
        if status is not None:
            raise RuntimeError(f"the daemon ended with {status}")
        return Path(f"/proc/{self.pid}/{name}").read_text()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the daemon was not started")
        return self._process
