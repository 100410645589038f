"""What travels between the verbs, and what an operator sees: values of an execution.

`Reservation` comes from Redis, `Claim` from Postgres. Claims are named tuples, built by position
from the claiming statement's row: they stand on the hot path.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """Where an execution stands. The last three are terminal."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self not in (State.PENDING, State.RUNNING)


class Reservation(NamedTuple):
    """An id taken from a queue; nothing is decided yet."""

    id: int
    queue: str


class Delivery(NamedTuple):
    """An id to be pushed (due) or delayed; `score` is its `run_at` in µs."""

    id: int
    queue: str
    score: int
    due: bool


class Claim(NamedTuple):
    """One execution under this worker's token, joined with its definition's settings.

    `payload`, `cursor` and `config` are JSON texts; `store` is (type_num, name, zone); `waited`
    seconds went by from `run_at` to the claim; `timeout` and `retry_backoff` are seconds.
    """

    id: int
    token: int
    job: str
    queue: str
    attempt: int
    fence: int
    orphanings: int
    interruptions: int
    idempotency_key: str
    type_num: str | None
    subject: str | None
    payload: str | None
    cursor: str | None
    abort_requested: bool
    store: list[str] | None
    waited: float
    config: str
    timeout: int
    max_attempts: int
    retry_backoff: int
    max_orphanings: int
    max_interruptions: int
    on_interrupt: str
    max_result_bytes: int
    verify_next: bool = False
    exclusive_key: str | None = None

    @property
    def asks(self) -> bool:
        """Whether its job's verify is asked before the body runs: it was cut short under
        `on_interrupt = "verify"`, and nobody has since said to just retry."""
        return self.verify_next and self.on_interrupt != "retry"


class Orphan(NamedTuple):
    """A running row whose worker is gone or late, with what decides its fate."""

    id: int
    token: int
    job: str
    queue: str
    attempt: int
    fence: int
    orphanings: int
    interruptions: int
    max_attempts: int
    retry_backoff: int
    max_orphanings: int
    max_interruptions: int
    on_interrupt: str


class Dispatched(NamedTuple):
    """The answer to a dispatch: which execution, made now or found, in which state, delivered?

    `delivered` is False where Redis was away (the sweep delivers), and for a found execution that
    is no longer pending. `created` is False, too, where the reply to the insert of a given key was
    lost: the repeat finds the row, and nobody can know whose it is.
    """

    execution_id: int
    created: bool
    state: State
    delivered: bool
    key: str


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution as an operator sees it; JSON columns are texts."""

    id: int
    job: str
    key: str
    queue: str
    store: str | None
    subject: str | None
    state: State
    attempt: int
    orphanings: int
    interruptions: int
    fence: int
    run_at: datetime
    created_at: datetime
    claimed_at: datetime | None
    deadline_at: datetime | None
    finished_at: datetime | None
    scheduled_for: datetime | None
    abort_requested_at: datetime | None
    progress: int | None
    progress_message: str | None
    payload: str | None
    cursor: str | None
    result: str | None
    result_error: str | None
    last_error: str | None
    worker: str | None
    exclusive_key: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One line of an execution's history: what did not succeed, or what an operator did."""

    attempt: int
    fence: int
    move: str
    reason: str
    by: str
    error: str | None
    traceback: str | None
    started_at: datetime | None
    ended_at: datetime
    worker: str | None
