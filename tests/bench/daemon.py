"""A real daemon for the benchmark, and what it costs: CPU seconds of its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")


class Daemon:
    """`taskengine run` in a process of its own."""

    def __init__(self, config: Path, records: Path) -> None:
        self._environ = {**os.environ, "TASKENGINE_BENCH_RECORDS": str(records)}
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "taskengine", "run", "--config", str(self._config)]
        self._process = subprocess.Popen(command, env=self._environ, start_new_session=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)

    def cpu(self) -> float:
        """CPU seconds used so far, by user and system."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the daemon ended with {self._process.returncode}")
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / _TICKS

    def rss(self) -> float:
        """Resident memory in MB."""
        assert self._process is not None
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
