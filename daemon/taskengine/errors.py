"""The one family of errors that the engine raises, with messages that say what to do.

Guarantees: everything raised on purpose by the engine is a `TaskEngineError`; each message says
what is wrong, where, and what would be right; every error survives pickling (jobs may run in a
process of their own). Drivers' errors are translated into these once, at the driver's home, `from`
their cause.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`", did you mean 'payroll'?"` for the closest known word, or `""` where none is close."""
    names = sorted(set(known))
    match = difflib.get_close_matches(word, names, n=1, cutoff=cutoff)
    if not match:
        folded = {name.casefold().replace("_", "-"): name for name in names}
        plain = word.casefold().replace("_", "-")
        close = difflib.get_close_matches(plain, folded, n=1, cutoff=cutoff)
        match = [folded[name] for name in close]
    return f", did you mean {match[0]!r}?" if match else ""


def listing(known: Iterable[str], limit: int = 20) -> str:
    """`"(known: 'a', 'b', and 3 more)"`: what there is, for a message."""
    names = sorted(set(known))
    shown = ", ".join(repr(name) for name in names[:limit])
    more = f", and {len(names) - limit} more" if len(names) > limit else ""
    return f"(known: {shown or 'none'}{more})"


class TaskEngineError(Exception):
    """The family: catch this to catch whatever the engine refuses or cannot do."""


# ---- what is refused at the door -----------------------------------------------------------------


class ConfigError(TaskEngineError):
    """The configuration cannot be used: file, key, and what would be right. Exit status 78."""


class PayloadError(TaskEngineError):
    """A payload (or a part of it) that cannot be stored as JSON or fails the job's own model."""

    def __init__(self, path: str, problem: str = "cannot be stored as JSON") -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"payload at {self.path or '$'}: {self.problem}"


class _Unknown(TaskEngineError):
    """A name that nobody knows: the nearest known one is in the message."""

    what = "name"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(name, self.known)

    def __str__(self) -> str:
        hint = nearest(self.name, self.known)
        return f"unknown {self.what} {self.name!r}{hint} {listing(self.known)}"


class UnknownJob(_Unknown):
    """No registered job has this name."""

    what = "job"


class UnknownQueue(_Unknown):
    """The queue is not in the engine's list (`[engine] queues`)."""

    what = "queue"


class UnknownStore(_Unknown):
    """No active store has this `type_num`."""

    what = "store"


class JobDisabled(TaskEngineError):
    """The job's definition is disabled: it takes no new dispatch; what is pending still runs."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"job {self.name!r} is disabled; `taskengine jobs enable {self.name}` enables it"


class KeyTooLong(TaskEngineError):
    """An idempotency or exclusive key of more than 255 bytes (UTF-8)."""

    def __init__(self, key: str, what: str = "idempotency key", limit: int = 255) -> None:
        super().__init__(key, what, limit)
        self.key = key
        self.what = what
        self.limit = limit

    def __str__(self) -> str:
        size = len(self.key.encode("utf-8", "surrogatepass"))
        return (
            f"{self.what} {self.key[:40]!r}… has {size} bytes, at most {self.limit} are allowed: "
            "shorten it, or hash its long part"
        )


class InvalidSetting(TaskEngineError):
    """A job's setting out of its bounds, or an argument that makes no sense."""


class ScheduleError(TaskEngineError):
    """A schedule that does not parse or can never fire, or an unknown time zone."""


class StoreRequired(TaskEngineError):
    """A per-store job was dispatched without saying for which store."""

    def __init__(self, job: str) -> None:
        super().__init__(job)
        self.job = job

    def __str__(self) -> str:
        return f"job {self.job!r} runs per store: give store=<type_num>, or use dispatch_stores()"


class NoStoreDatabase(TaskEngineError):
    """`store_db()` in a global job, or for a store without a DSN."""


# ---- an execution that is not as assumed ---------------------------------------------------------


class ExecutionNotFound(TaskEngineError):
    """No execution has this id (any more)."""

    def __init__(self, execution_id: int) -> None:
        super().__init__(execution_id)
        self.execution_id = execution_id

    def __str__(self) -> str:
        return f"no execution {self.execution_id}: never dispatched here, or removed by retention"


class ExecutionEmptied(TaskEngineError):
    """Retention has emptied the execution (payload gone, key kept): it cannot run again."""

    def __init__(self, execution_id: int) -> None:
        super().__init__(execution_id)
        self.execution_id = execution_id

    def __str__(self) -> str:
        return (
            f"execution {self.execution_id} was emptied by retention: its payload is gone, only "
            "its key is kept; dispatch the work anew under another key"
        )


class InvalidMove(TaskEngineError):
    """An operator's move that the execution's state forbids, e.g. the redrive of a running one."""


class ClaimLost(TaskEngineError):
    """The claim is no longer ours: whatever was to be written under it has not been."""


# ---- a store that is away: a turn of a loop ends, the process stays ------------------------------


class Away(TaskEngineError):
    """A store cannot serve now; the same call may be made again later."""


class StoreUnavailable(Away):
    """Postgres is away or read-only."""


class StoreBusy(Away):
    """Postgres gave up waiting for a lock (`lock_timeout`) or broke a deadlock."""


class BrokerUnavailable(Away):
    """Redis is switched off, away, or refuses (READONLY, OOM, LOADING, MISCONF)."""


def is_away(error: BaseException) -> bool:
    """Whether the error says only that a store is away (groups: all of their leaves)."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_away(leaf) for leaf in error.exceptions)
    return isinstance(error, Away)


class DataRejected(TaskEngineError):
    """Postgres refuses the data itself: repeating changes nothing, a batch is split until the bad
    row stands alone."""


class DuplicateKey(DataRejected):
    """A unique index says no: somebody else holds the key."""


# ---- what ends, or never starts, the process -----------------------------------------------------


class MigrationError(TaskEngineError):
    """The schema is behind, changed by hand, or a migration failed."""


class WrongDatabase(TaskEngineError):
    """Redis holds another database's identity under this prefix: two systems would mix."""


class ServiceFailed(TaskEngineError):
    """A service failed again and again, stalled, or ended by itself: the process ends with 1."""
