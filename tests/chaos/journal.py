"""What bodies write of themselves: one line when a body begins, one when it ends.

The lines go to a file of the process's own by one write each, so they outlive a SIGKILL and know
nothing of the faults of a store. The harness reads them into a table that has one row for each
(execution, fence): a body that began twice under one claim cannot hide.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from taskengine import JobContext

FOLDER = "CHAOS_JOURNAL"
_files: dict[int, int] = {}


class Body(NamedTuple):
    """One body begun. `ended`: `ok`, the name of an exception, or None."""

    execution_id: int
    fence: int
    attempt: int
    worker: str
    ended: str | None
    ended_at: float | None = None


def write(*words: object) -> None:
    """One line, whole and kept from here on."""
    pid = os.getpid()
    if pid not in _files:
        path = Path(os.environ[FOLDER]) / f"{pid}-{time.time_ns()}.log"
        _files[pid] = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(_files[pid], (" ".join(map(str, words)) + "\n").encode())


@contextmanager
def body(ctx: JobContext) -> Iterator[None]:
    """Around what a job does."""
    execution_id, fence = ctx.execution_id, ctx.fence
    write("begun", execution_id, fence, ctx.attempt, ctx.worker)
    try:
        yield
    except BaseException as error:
        write("ended", execution_id, fence, type(error).__name__, time.time())
        raise
    write("ended", execution_id, fence, "ok", time.time())


def effect(ctx: JobContext) -> Path:
    """Where the outside world keeps what this execution did, once it did it."""
    return Path(os.environ[FOLDER]) / "effects" / str(ctx.execution_id)


def read(folder: Path) -> tuple[list[Body], list[str]]:
    """All bodies begun, and what is wrong with the lines themselves."""
    begun: dict[tuple[int, int], Body] = {}
    wrong: list[str] = []
    for path in sorted(folder.glob("*.log")):
        for line in path.read_text().splitlines():
            word, *rest = line.split()
            key = (int(rest[0]), int(rest[1]))
            match word:
                case "begun" if key in begun:
                    wrong.append(f"one claim's body begun twice: {line}")
                case "begun":
                    begun[key] = Body(*key, int(rest[2]), rest[3], None)
                case "ended":
                    begun[key] = begun[key]._replace(ended=rest[2], ended_at=float(rest[3]))
                case _:
                    wrong.append(f"{line}")
    return list(begun.values()), wrong
