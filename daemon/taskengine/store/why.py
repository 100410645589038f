"""One execution and what stands around it, for `why`.

Guarantees: every statement finds its rows by an index, however long the history is (a test asks for
the plans); texts of users come cut to 2,000 characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from taskengine.model.execution import Attempt
from taskengine.store.pool import Connection
from taskengine.store.statements import sql

PACE_SECONDS = 300.0
_PACE_ROWS = 2000
_OLDER = 1000
COUNTED = 10_000  # of a line, at the most


class Row(NamedTuple):
    """An execution. `at`: the database's now; what begins with `worker` is about the daemon that
    claimed it last, `is_defined` and the next seven about its job's definition."""

    at: datetime
    id: int
    job: str
    queue: str
    key: str
    key_is_drawn: bool
    store: str | None
    subject: str | None
    exclusive_key: str | None
    state: str
    attempt: int
    fence: int
    orphanings: int
    interruptions: int
    verify_next: bool
    waits_for_key: bool
    run_at: datetime
    check_at: datetime
    created_at: datetime
    claimed_at: datetime | None
    deadline_at: datetime | None
    finished_at: datetime | None
    scheduled_for: datetime | None
    abort_requested_at: datetime | None
    emptied_at: datetime | None
    progress: int | None
    progress_message: str | None
    result_error: str | None
    last_error: str | None
    worker: str | None
    worker_beat_at: datetime | None
    worker_dead_at: datetime | None
    worker_stopped_at: datetime | None
    worker_holds_over_time: bool | None
    is_defined: bool
    is_enabled: bool | None
    definition_error: str | None
    timeout: int | None
    max_attempts: int | None
    max_orphanings: int | None
    max_interruptions: int | None
    on_interrupt: str | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    event_source: str | None
    event_id: str | None
    event_type: str | None


class Pace(NamedTuple):
    """So many runs of a queue ended within so many seconds."""

    ended: int
    seconds: float

    @property
    def per_minute(self) -> float:
        return 60 * self.ended / self.seconds


class Load(NamedTuple):
    """What runs on a daemon; orphaned ones apart."""

    running: int
    once: int
    again: int


class Line(NamedTuple):
    """A queue as Postgres has it: rows that are due, and those of them before the one asked for; each
    counted up to `COUNTED`."""

    due: int
    older: int


class KeyState(NamedTuple):
    """Who stands before a waiter: the holder of its key, and the older waiters in its queue."""

    holder: int | None
    holder_job: str | None
    holder_since: datetime | None
    holder_worker: str | None
    oldest: int | None
    older: int


async def one_moment(c: Connection) -> None:
    """First in a transaction: what follows sees one moment."""
    await c.execute(sql("why/one_moment"))


async def row(c: Connection, execution_id: int) -> Row | None:
    found = await c.fetchrow(sql("why/row"), execution_id)
    return Row(*found.values()) if found else None


async def history(c: Connection, execution_id: int, limit: int) -> list[Attempt]:
    """The last lines, oldest first."""
    records = await c.fetch(sql("why/history"), execution_id, limit)
    return [Attempt(*r.values()) for r in reversed(records)]


async def moves(c: Connection, execution_id: int) -> Mapping[str, int]:
    """How often each move stands in the whole history."""
    records = await c.fetch(sql("why/moves"), execution_id)
    return {r["move"]: r["times"] for r in records}


async def pace(c: Connection, queue: str) -> Pace:
    """By what ended within the last five minutes, 2,000 rows at the most."""
    record = await c.fetchrow(sql("why/pace"), queue, PACE_SECONDS, _PACE_ROWS)
    assert record is not None  # noqa: S101  an aggregate
    return Pace(*record.values())


async def lines(c: Connection, queues: Sequence[str], waiter: Row) -> Mapping[str, Line]:
    """By the queue's name; what direct mode takes rows from."""
    records = await c.fetch(sql("why/line"), queues, waiter.run_at, waiter.id, COUNTED)
    return {r["name"]: Line(r["due"], r["older"]) for r in records}


async def running(c: Connection) -> Mapping[int, Load]:
    """By the daemon's id."""
    records = await c.fetch(sql("why/running"))
    return {r["worker_id"]: Load(r["running"], r["once"], r["again"]) for r in records}


async def key(c: Connection, waiter: Row) -> KeyState:
    """For a pending row that has an exclusive key."""
    record = await c.fetchrow(
        sql("why/key"), waiter.exclusive_key, waiter.queue, waiter.run_at, waiter.id, _OLDER
    )
    assert record is not None  # noqa: S101  a left join
    return KeyState(*record.values())
