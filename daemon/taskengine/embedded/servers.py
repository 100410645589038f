"""Both servers of a project as one: started, told to others, stopped in order."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from taskengine.embedded.errors import EmbeddedError
from taskengine.embedded.place import Place, prepare, state_of
from taskengine.embedded.postgres import Postgres
from taskengine.embedded.processes import start_ticks
from taskengine.embedded.valkey import Valkey

CONNECTION = "connection.json"


@dataclass(frozen=True)
class Servers:
    """How to reach a running pair; `state` is the project's `.taskengine/`."""

    dsn: str
    redis_url: str
    state: Path


class EmbeddedServers:
    """The private Postgres and Valkey of the project in `folder`; one owner at a time.

    They end when this process ends, even by SIGKILL. `durable=False` is for tests: what a crash
    of the machine would lose may be lost, what a crash of a server loses is not.
    `postgres` and `valkey` can be stopped, killed, frozen and started one by one.
    """

    postgres: Postgres
    valkey: Valkey

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.state = state_of(folder)
        self._durable = durable
        self._lock: IO[str] | None = None
        self._place: Place | None = None

    def start(self) -> Servers:
        """Start both, on first use with everything they need; the data of before is there.

        Raises EmbeddedError when another process owns them, or with the end of the server's log.
        """
        try:
            self._take()
            self._place = prepare(self.state.parent)
            self.postgres = Postgres(self._place, durable=self._durable)
            self.valkey = Valkey(self._place, durable=self._durable)
            self.valkey.start()
            self.postgres.start()
        except PermissionError as refused:
            self.stop()
            raise EmbeddedError(
                f"no permission for {refused.filename}; if another user has made {self.state}, "
                "go on as that user"
            ) from refused
        except BaseException:
            self.stop()
            raise
        return self._announce()

    def stop(self) -> None:
        """End both in order, and leave no process and no socket behind; the data stays."""
        if self._lock is None:
            return
        (self.state / CONNECTION).unlink(missing_ok=True)
        if self._place is not None:
            self.valkey.stop()
            self.postgres.stop()
            shutil.rmtree(self._place.run, ignore_errors=True)
        self._lock.close()
        self._lock = self._place = None

    def remove(self) -> None:
        """End both and delete all they had, as tests do at their end."""
        place = self._place
        self.stop()
        if place is not None:
            shutil.rmtree(place.data)
            shutil.rmtree(place.state)

    def restart_postgres(self, *, immediate: bool = False) -> None:
        """Every session is cut; `immediate`: as after a crash, the log is replayed."""
        if immediate:
            self.postgres.stop_immediately()
        else:
            self.postgres.stop()
        self.postgres.start()

    def restart_redis(self, *, keep_data: bool = True) -> None:
        """Every connection is cut; without `keep_data` it comes back empty."""
        if keep_data:
            self.valkey.stop()
        else:
            self.valkey.wipe()
        self.valkey.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _take(self) -> None:
        """Hold the project's lock; the kernel gives it back for us, however we end."""
        self.state.mkdir(mode=0o700, exist_ok=True)
        lock = (self.state / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise EmbeddedError(
                f"the servers of {self.state} are in use by another process; stop it first"
            ) from None
        self._lock = lock

    def _announce(self) -> Servers:
        told = {
            "dsn": self.postgres.dsn,
            "redis_url": self.valkey.url,
            "pid": os.getpid(),
            "started": start_ticks(os.getpid()),
        }
        aside = self.state / f"{CONNECTION}.new"
        aside.unlink(missing_ok=True)
        aside.touch(mode=0o600)
        aside.write_text(json.dumps(told) + "\n")
        aside.rename(self.state / CONNECTION)
        return Servers(self.postgres.dsn, self.valkey.url, self.state)


def find_running(folder: Path) -> Servers | None:
    """The running servers of the project in `folder`, for every command that is told no others.

    None when there are none, when their owner has died, or when they are another user's.
    """
    state = state_of(folder)
    try:
        told = json.loads((state / CONNECTION).read_text())
        if start_ticks(told["pid"]) != told["started"]:
            return None
        return Servers(told["dsn"], told["redis_url"], state)
    except (OSError, ValueError, KeyError, TypeError):
        return None
