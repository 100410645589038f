"""One server process: started in a session of its own, watched, stopped for certain."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals
from typing import ClassVar

from taskengine.embedded.errors import EmbeddedError
from taskengine.embedded.place import Place
from taskengine.embedded.processes import Watcher, heads, send, servers_in, until

_START_SECONDS = 60.0
_LONGEST_LOG = 8 * 1024 * 1024

Steps = Sequence[tuple[Signals, float]]  # signals, and how many seconds to wait for the effect


class Server(ABC):
    """What Postgres and Valkey have in common. Every call is idempotent and blocks.

    The session of its own keeps the terminal's Ctrl-C away: the servers end last, when we say so.
    """

    name: ClassVar[str]
    farewell: ClassVar[Signals]  # asks for a clean end
    steps: ClassVar[Steps]

    def __init__(self, place: Place, *, durable: bool) -> None:
        self.place = place
        self.durable = durable
        self.data = place.data / self.name
        self.log = place.state / f"{self.name}.log"
        self._child: subprocess.Popen[bytes] | None = None
        self._watcher: Watcher | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments; all settings are there, none in a file."""

    @abstractmethod
    def prepare(self) -> None:
        """Make the data folder where it is missing."""

    @abstractmethod
    def ready(self) -> bool:
        """Does it answer?"""

    @property
    def pid(self) -> int | None:
        """The main process, while it lives."""
        alive = self._child is not None and self._child.poll() is None
        return self._child.pid if alive and self._child is not None else None

    def start(self) -> None:
        """Start, and return when it answers; what is left of an earlier run is ended first."""
        if self.pid is not None:
            return
        self.stop()
        self.prepare()
        self._spawn()
        if not until(lambda: self.pid is None or self.ready(), _START_SECONDS) or self.pid is None:
            self.stop()
            raise EmbeddedError(f"{self.name} did not start; {self.log} ends:\n{self._tail()}")

    def stop(self, steps: Steps | None = None) -> None:
        """End it in order; more and more firmly when it does not go. Nothing is left behind."""
        self.thaw()
        for number, seconds in steps or self.steps:
            self._signal(number, heads(self._processes()))
            if self._gone(seconds):
                break
        else:
            self.kill()
        self._forget()

    def kill(self) -> None:
        """SIGKILL to the server and all its children, as a crash of the machine would be."""
        self._signal(SIGKILL, self._processes())
        self._gone(10)
        self._forget()

    def freeze(self) -> None:
        """It hangs from now on: connections stay open and nothing is answered."""
        self._signal(SIGSTOP, self._processes())

    def thaw(self) -> None:
        """It goes on where it was."""
        self._signal(SIGCONT, self._processes())

    def _spawn(self) -> None:
        too_long = self.log.exists() and self.log.stat().st_size > _LONGEST_LOG
        with self.log.open("wb" if too_long else "ab") as log:
            self._child = subprocess.Popen(  # noqa: S603
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **self.place.account.process(),
            )
        self._watcher = Watcher(self._child.pid, self.farewell)

    def _gone(self, seconds: float) -> bool:
        return until(lambda: not self._processes(), seconds)

    def _signal(self, number: Signals, pids: set[int]) -> None:
        for pid in pids:
            send(pid, number)

    def _processes(self) -> set[int]:
        own = {self.pid} if self.pid is not None else set()
        return own | servers_in(self.data)

    def _forget(self) -> None:
        if self._child is not None:
            self._child.wait()
        if self._watcher is not None:
            self._watcher.close()
        self._child = self._watcher = None

    def _tail(self) -> str:
        return "\n".join(_lines(self.log)[-15:])


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines() if path.exists() else []
