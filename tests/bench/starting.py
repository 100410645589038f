"""What a start costs: from exec to READY as systemd sees it, the memory after it, and a `--help`."""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.support.daemon import Daemon

_TIMES = 10
_LIMIT = 60.0


async def start(config: Path, folder: Path) -> dict[str, float]:
    """Medians of ten: seconds until READY, MB a second later, ms of two helps."""
    ready, memory = [], []
    for _ in range(_TIMES):
        seconds, megabytes = await asyncio.to_thread(_one, config, folder / "notify")
        ready.append(seconds)
        memory.append(megabytes)
    return {
        "start_to_ready_s": statistics.median(ready),
        "start_to_ready_longest_s": max(ready),
        "start_rss_mb": statistics.median(memory),
        "help_ms": await asyncio.to_thread(_help),
        "help_of_a_command_ms": await asyncio.to_thread(_help, "status"),
    }


def _one(config: Path, address: Path) -> tuple[float, float]:
    """As the unit starts it, with us for the service manager."""
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(os.fspath(address))
        manager.settimeout(_LIMIT)
        daemon = Daemon(config, environ={"NOTIFY_SOCKET": os.fspath(address)})
        begun = time.perf_counter()
        with daemon:
            while b"READY=1" not in manager.recv(4096).split(b"\n"):
                pass
            took = time.perf_counter() - begun
            time.sleep(1)
            return took, daemon.rss()


def _help(*words: str) -> float:
    """ms, the median of ten."""
    took = []
    command = [str(Path(sys.executable).with_name("taskengine")), *words, "--help"]
    for _ in range(_TIMES):
        begun = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took)
