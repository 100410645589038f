"""A worker's presence on its host: a lock file per worker id, held for as long as it lives.

An `flock` ends with its process, however that ends. So a file that exists, under the same boot id,
and whose lock can be taken, proves that its worker is dead, at once; a missing file proves nothing.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO
from uuid import UUID

from taskengine.store.workers import Worker

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id(file: Path | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """This boot of this machine, as the kernel's file says (default: the real one); empty where
    nobody says.

    The unit says it as $BOOT_ID (%b), since its ProcSubset=pid hides the kernel's file.
    """
    try:
        return (file or _BOOT_ID).read_text().strip()
    except OSError:
        pass
    try:
        return str(UUID(environ.get("BOOT_ID", "")))
    except ValueError:
        return ""


def host() -> str:
    return socket.gethostname()


class LockFile:
    """The lock of one worker id."""

    def __init__(self, folder: Path, worker_id: int, database: str) -> None:
        self.path = folder / f"worker-{database}-{worker_id}.lock"
        self._file: IO[str] | None = None

    def take(self) -> bool:
        """Hold it until `release` or death; False where the folder cannot be used."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.path.parent.stat().st_uid != os.getuid():
                return False
            file = self.path.open("w")
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None


def proven_dead(workers: Iterable[Worker], own_id: int, boot: str) -> list[int]:
    """Workers of this boot whose lock file is there and free."""
    if not boot:
        return []
    here = [w for w in workers if w.boot_id == boot and w.id != own_id and w.lock_path]
    return [w.id for w in here if _is_free(Path(str(w.lock_path)))]


def _is_free(path: Path) -> bool:
    try:
        with path.open("r") as file:  # not for writing: to this service the folder may be read-only
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
