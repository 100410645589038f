"""What stands around a running job: why it is asked to stop, whom it is for, what it may open."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from taskengine.model.payload import JsonValue


class StopReason(StrEnum):
    """Why a running body is asked to stop."""

    CANCEL = "cancel"  # an operator
    INTERRUPT = "interrupt"  # shutdown
    LOST = "lost"  # the claim is no longer ours
    DEADLINE = "deadline"


class LogLine(NamedTuple):
    """One line of an execution's own log."""

    at: datetime
    level: str
    message: str
    fields: dict[str, Any]


class StoreInfo(NamedTuple):
    """The store that an execution of a per-store job is for."""

    type_num: str
    name: str
    time_zone: str


class StoreDatabase(Protocol):
    """A store's own database: asyncpg's verbs; they block in a thread."""

    def execute(self, query: str, *args: object) -> Any: ...
    def fetch(self, query: str, *args: object) -> Any: ...
    def fetchrow(self, query: str, *args: object) -> Any: ...
    def fetchval(self, query: str, *args: object) -> Any: ...
    def transaction(self) -> Any: ...


class OpensDatabase(
    AbstractAsyncContextManager[StoreDatabase], AbstractContextManager[StoreDatabase]
):
    """`async with` in coroutines, `with` in threads."""


class EventView(Protocol):
    """The webhook event that an execution is about."""

    id: int
    source: str
    type: str | None
    body: bytes
    received_at: datetime
    occurred_at: datetime | None

    def json(self) -> JsonValue:
        """The body's value, digit for digit."""

    def processing(self) -> AbstractAsyncContextManager[Any]:
        """A transaction on the engine's database that ends with `processed_at` set."""


class Alone:
    """The backstage of a unit test."""

    worker = "tests"

    def now(self) -> datetime:
        return datetime.fromtimestamp(0).astimezone()

    def changed(self, ctx: object) -> None:
        """Nobody flushes."""

    def save_cursor(self, ctx: object, text: str) -> Awaitable[None]:  # noqa: ARG002
        return Done()

    def store_db(self, ctx: object) -> OpensDatabase:  # noqa: ARG002
        raise LookupError("a unit test has no store database: pass your own to the job")


class Done:
    """An awaitable that is already done, in any thread."""

    def __await__(self) -> Any:
        return iter(())
