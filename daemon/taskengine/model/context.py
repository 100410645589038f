"""What a running job may do, the same in a coroutine and in a thread.

Everything but `save_cursor`, `store_db` and the event's transaction writes to memory; the engine
flushes it in batches and always with the settlement. What needs a store is behind `Backstage`,
which `lifecycle/` supplies.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime
from typing import Any, Protocol

from taskengine.model.execution import Claim
from taskengine.model.outcome import Aborted
from taskengine.model.payload import JsonValue, decode, encode
from taskengine.model.surroundings import (
    Alone,
    EventView,
    LogLine,
    OpensDatabase,
    StopReason,
    StoreInfo,
)
from taskengine.model.text import shown

_FIRST_LOGS = 1000
_MESSAGE_CHARS = 1000


class Backstage(Protocol):
    """What a context needs of the engine."""

    worker: str

    def now(self) -> datetime: ...
    def changed(self, ctx: JobContext) -> None: ...
    def save_cursor(self, ctx: JobContext, text: str) -> Awaitable[None]: ...
    def store_db(self, ctx: JobContext) -> OpensDatabase: ...


class JobContext:
    """One run of one execution, as its job sees it."""

    __slots__ = (
        "_backstage", "_claim", "_cursor", "_event", "_logs", "_progress", "_stop",
        "dropped_logs", "in_thread",
    )  # fmt: skip

    def __init__(self, claim: Claim, backstage: Backstage, event: EventView | None = None) -> None:
        self._claim = claim
        self._backstage = backstage
        self._event = event
        self._cursor = claim.cursor
        self._stop: StopReason | None = None
        self._progress: tuple[int, str | None] | None = None
        self._logs: list[LogLine] = []
        self.dropped_logs = 0
        self.in_thread = False

    # ---- who and what ------------------------------------------------------------------------

    @property
    def execution_id(self) -> int:
        return self._claim.id

    @property
    def job(self) -> str:
        return self._claim.job

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def attempt(self) -> int:
        """The number of this run; the first is 1."""
        return self._claim.attempt

    @property
    def is_retry(self) -> bool:
        return self._claim.attempt > 1

    @property
    def fence(self) -> int:
        """Grows with every claim of this execution: hand it to systems that can refuse older ones."""
        return self._claim.fence

    @property
    def idempotency_key(self) -> str:
        """The execution's key, the same in every attempt: for effects outside."""
        return self._claim.idempotency_key

    @property
    def worker(self) -> str:
        return self._backstage.worker

    @property
    def type_num(self) -> str | None:
        """The store's number; None in a global job."""
        return self._claim.type_num

    @property
    def store(self) -> StoreInfo | None:
        row = self._claim.store
        return StoreInfo(*row) if row else None

    @property
    def event(self) -> EventView:
        """The webhook event; `LookupError` where the execution is about none."""
        if self._event is None:
            raise LookupError(f"execution {self.execution_id} is about no webhook event")
        return self._event

    # ---- what it was given -------------------------------------------------------------------

    def config(self, key: str, default: Any = None) -> Any:
        """A value of the definition's config (the row in the database)."""
        values = decode(self._claim.config)
        return values.get(key, default) if isinstance(values, dict) else default

    def payload(self, key: str, default: Any = None) -> Any:
        """A value of the raw JSON payload."""
        values = decode(self._claim.payload) if self._claim.payload else {}
        return values.get(key, default) if isinstance(values, dict) else default

    @property
    def payload_text(self) -> str | None:
        return self._claim.payload

    @property
    def cursor(self) -> Any:
        """Where an earlier attempt stopped; None at first."""
        return decode(self._cursor) if self._cursor else None

    # ---- what it says ------------------------------------------------------------------------

    def progress(self, percent: float, message: str | None = None) -> None:
        """How far it is (0 to 100), shown to operators within a second or so."""
        text = None if message is None else shown(message)[:_MESSAGE_CHARS]
        self._progress = (int(min(100, max(0, percent))), text)  # in this order NaN is 0
        self._backstage.changed(self)

    def log(self, level: str, message: str, /, **fields: Any) -> None:
        """A line in the execution's own log. At most 1,000 lines wait to be written."""
        if len(self._logs) >= _FIRST_LOGS:
            self.dropped_logs += 1
            return
        self._logs.append(LogLine(self._backstage.now(), level, message, fields))
        self._backstage.changed(self)

    def debug(self, message: str, /, **fields: Any) -> None:
        self.log("debug", message, **fields)

    def info(self, message: str, /, **fields: Any) -> None:
        self.log("info", message, **fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        self.log("warning", message, **fields)

    def error(self, message: str, /, **fields: Any) -> None:
        self.log("error", message, **fields)

    # ---- whether it should go on -------------------------------------------------------------

    def heartbeat(self) -> None:
        """Needed by nobody: the worker's own beat keeps the claim, however long the body is silent."""

    def should_abort(self) -> bool:
        """Whether the body is asked to stop: cancelled, shutting down, claim lost, out of time."""
        return self._stop is not None

    def check_abort(self) -> None:
        """Raise `Aborted` where `should_abort()`."""
        if self._stop is not None:
            raise Aborted(self._stop)

    def checkpoint(self) -> None:
        """`check_abort()`, as the body of a loop calls it."""
        self.check_abort()

    # ---- what needs a store ------------------------------------------------------------------

    def save_cursor(self, value: JsonValue) -> Awaitable[None]:
        """Keep `value` for the next attempt; durable once awaited (in a thread: once it returns).

        Raises `PayloadError` for what is not JSON, `ClaimLost` where the execution is not ours.
        """
        text = encode(value)
        self._cursor = text
        return self._backstage.save_cursor(self, text)

    def store_db(self) -> OpensDatabase:
        """The store's own database; `NoStoreDatabase` in a global job or without a DSN."""
        return self._backstage.store_db(self)

    # ---- the engine's side -------------------------------------------------------------------

    @property
    def claim(self) -> Claim:
        return self._claim

    @property
    def stop_reason(self) -> StopReason | None:
        return self._stop

    def ask_to_stop(self, reason: StopReason) -> None:
        """The first reason stays, except that a lost claim overrules it, and that a deadline is one
        in a shutdown, too."""
        late = reason is StopReason.DEADLINE and self._stop is StopReason.INTERRUPT
        if self._stop is None or reason is StopReason.LOST or late:
            self._stop = reason

    def take_logs(self) -> list[LogLine]:
        """The lines not yet written; they are the caller's from here on."""
        lines, self._logs = self._logs, []
        return lines

    def take_dropped(self) -> int:
        """How many lines found no room since the last call."""
        dropped, self.dropped_logs = self.dropped_logs, 0
        return dropped

    def last_progress(self) -> tuple[int | None, str | None]:
        return self._progress or (None, None)

    @classmethod
    def for_tests(
        cls,
        *,
        payload: JsonValue = None,
        config: JsonValue = None,
        cursor: JsonValue = None,
        attempt: int = 1,
        type_num: str | None = None,
    ) -> JobContext:
        """A context that needs no engine: what it is told stays in memory."""
        claim = Claim(
            1, 1, "test", "default", attempt, attempt, 0, 0, "test:1", type_num, None,
            encode(payload) if payload is not None else None,
            encode(cursor) if cursor is not None else None,
            False, [type_num, type_num, "UTC"] if type_num else None, 0.0,
            encode(config if config is not None else {}),
            300, 3, 60, 3, 20, "retry", 65536,
        )  # fmt: skip
        return cls(claim, Alone())
