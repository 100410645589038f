"""What /proc says about processes, and a watcher that ends one when we are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_SERVERS = ("postgres", "valkey-server")
_WATCH = 'read -r line; kill -s "$1" "$2"'


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for the condition; False when it does not come true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def send(pid: int, number: signal.Signals) -> None:
    """A signal; a process that is gone already is as good as one that got it."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def start_ticks(pid: int) -> int | None:
    """When the process began, in ticks since the boot: with the pid, a name nobody else bears."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def heads(pids: set[int]) -> set[int]:
    """Those whose parent is not among them: the ones to ask, where the children must be let be."""
    return {pid for pid in pids if not (fields := _stat(pid)) or int(fields[1]) not in pids}


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on, or nothing."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def servers_in(folder: Path) -> set[int]:
    """The servers' processes, their children included, that work in this data folder.

    It needs no pid file, which may name a process that bears the number by now, and finds what
    is left over when a server's parent was killed.
    """
    path = os.path.realpath(folder)
    return {int(entry.name) for entry in _PROC.iterdir() if _serves(entry, path)}


def _serves(entry: Path, folder: str) -> bool:
    if not entry.name.isdecimal():
        return False
    try:
        return _target(entry / "cwd") == folder and Path(_target(entry / "exe")).name in _SERVERS
    except OSError:  # gone, or somebody else's
        return False


def _target(link: Path) -> str:
    return str(link.readlink()).removesuffix(" (deleted)")


class Watcher:
    """Ends a server when this process is gone, however it died.

    A shell waits on a pipe whose other end only we hold: the kernel closes it for us, SIGKILL
    or not. (PR_SET_PDEATHSIG would do it too, but for the thread that started the server.)
    """

    def __init__(self, pid: int, farewell: signal.Signals) -> None:
        name = farewell.name.removeprefix("SIG")
        self._shell = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _WATCH, "taskengine-watch", name, str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )

    def close(self) -> None:
        """The server has ended; the watcher goes without a signal to anybody."""
        self._shell.kill()
        self._shell.wait()
        if self._shell.stdin is not None:
            self._shell.stdin.close()
