"""Whose entry it is: the execution within whose body something is logged, and this worker.

Guarantees: what a job or a library logs within an execution, in a coroutine or a thread, carries the
execution's fields, and no value of the job's can take their place; nothing is computed unless
something is logged. The engine's own events name their execution themselves.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

from structlog.typing import EventDict, WrappedLogger

from taskengine.telemetry.events import Fields


class Execution(Protocol):
    """What is known of the execution: a claim is one."""

    @property
    def id(self) -> int: ...
    @property
    def job(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def type_num(self) -> str | None: ...


_current: ContextVar[Execution | None] = ContextVar("taskengine_execution", default=None)


def begin(execution: Execution) -> None:
    """What is logged from here on, and in tasks and threads that are begun here, is its own."""
    _current.set(execution)


def end() -> None:
    """It is no more. (A token would bind us to the context that we began in; a coroutine that the
    collector closes ends in another one.)"""
    _current.set(None)


def about(execution: Execution) -> dict[str, Any]:
    """The fields that name an execution."""
    return {
        "execution_id": execution.id,
        "task": execution.job,
        "queue": execution.queue,
        "attempt": execution.attempt,
        "store": execution.type_num,
    }


class Origin:
    """Adds the fields; a processor of the log."""

    def __init__(self) -> None:
        self.worker: Any = None

    def wants(self, event: str) -> bool:
        """Only what it learns from."""
        return event == "worker.joined"

    def learn(self, event: str, fields: Fields) -> None:
        """This process's worker is known, or has another number."""
        if self.wants(event):
            self.worker = fields.get("worker_id")

    def __call__(self, _logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
        execution = None if "_event" in entry else _current.get()
        fields = about(execution) if execution is not None else {}
        if self.worker is not None:
            fields["worker"] = self.worker
        for key, value in fields.items():
            if value is None:
                continue
            if key in entry:
                entry[f"{key}_"] = entry[key]
            entry[key] = value
        return entry
