"""Rows that the statements on executions take and give: named tuples, built by position."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from taskengine.model.execution import Delivery


class NewExecution(NamedTuple):
    """What a dispatch asks for. `run_at` rules over `delay` (seconds from the database's now), and
    `queue` over the job's own."""

    job: str
    key: str
    type_num: str | None
    subject: str | None
    payload: str
    run_at: datetime | None
    delay: float
    key_is_drawn: bool
    scheduled_for: datetime | None
    queue: str | None = None
    exclusive_key: str | None = None


class Inserted(NamedTuple):
    """A row that the insert made."""

    id: int
    job: str
    key: str
    queue: str
    score: int
    due: bool


class Found(NamedTuple):
    """What stands behind a dispatch that inserted nothing."""

    ord: int
    job_known: bool
    is_enabled: bool | None
    job_queue: str | None
    scope: str | None
    max_payload_bytes: int | None
    store_known: bool
    id: int | None
    state: str | None
    queue: str | None
    score: int | None
    due: bool | None
    known_jobs: list[str] | None
    known_stores: list[str] | None


class Leftover(NamedTuple):
    """Why a reserved id was not claimed."""

    id: int
    settled: bool
    queue: str | None
    score: int | None
    early: bool | None
    known: bool | None
    paused: bool
    orphanings: int | None = None
    exclusive_key: str | None = None
    job: str | None = None


class Moved(NamedTuple):
    """A row after its settlement; a move to pending (or a notice) is to be delivered."""

    id: int
    job: str
    queue: str
    state: str
    move: str
    reason: str
    score: int
    due: bool
    interruptions: int
    exclusive_key: str | None = None

    @property
    def delivery(self) -> Delivery | None:
        pending = self.state == "pending"
        return Delivery(self.id, self.queue, self.score, self.due) if pending else None


class Marked(NamedTuple):
    """A refused waiter: is its key still taken, and does its row say now that it waits?"""

    id: int
    taken: bool
    marked: bool


class NextOfKey(NamedTuple):
    """Whose turn it is under an exclusive key that nobody holds."""

    id: int
    queue: str
    score: int
    key: str

    @property
    def delivery(self) -> Delivery:
        return Delivery(self.id, self.queue, self.score, True)


class HeldState(NamedTuple):
    """What the beat learns of a claim: lost, asked to abort, or a stray row under this worker."""

    id: int
    token: int
    lost: bool
    abort: bool
    stray: bool


class Cancelled(NamedTuple):
    """What a cancel found."""

    id: int
    found: str
    queue: str | None
    exclusive_key: str | None = None


class Redriven(NamedTuple):
    """What a redrive found; `queue` and `score` where it moved."""

    id: int
    found: str
    emptied: bool
    queue: str | None
    score: int | None
