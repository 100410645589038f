"""What claims and settlements tell: one event a batch for the metrics, one an execution for the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from taskengine.lifecycle.inflight import Flight
from taskengine.model.execution import Claim, Reservation
from taskengine.model.outcome import Outcome
from taskengine.store.execution_rows import Moved
from taskengine.telemetry.events import emit, heard
from taskengine.telemetry.origin import about

_OFTEN = 3  # interruptions that are worth an alert
_UNVERIFIED = ("unverified", "unanswered")


class Told(Protocol):
    """A flight that has ended."""

    @property
    def flight(self) -> Flight: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def duration(self) -> float: ...


def tell_claimed(claims: Sequence[Claim]) -> None:
    if claims:
        emit("executions.claimed", rows=[(c.queue, c.job, c.waited) for c in claims])


def tell_rowless(reservations: Iterable[Reservation]) -> None:
    """What has merely ended is usual (a message too many); that there is no row is not."""
    for queue, count in Counter(r.queue for r in reservations).items():
        emit("queue.rowless_dropped", queue=queue, count=count)


def tell_dispatched(rows: Sequence[tuple[str, str, int]]) -> None:
    """(queue, job, id) of each row that was made."""
    emit("executions.dispatched", rows=rows)
    if heard("execution.dispatched"):
        for queue, job, execution_id in rows:
            emit("execution.dispatched", execution_id=execution_id, task=job, queue=queue)


def tell_succeeded(batch: Sequence[Told]) -> None:
    if not batch:
        return
    emit(
        "executions.settled",
        rows=[_row(e.flight.claim, "succeeded", e.duration) for e in batch],
    )
    if heard("execution.succeeded"):
        for ended in batch:
            emit("execution.succeeded", seconds=ended.duration, **about(ended.flight.claim))


def tell_lost(batch: Iterable[Told]) -> None:
    """The row was no longer under our token: somebody else decided first."""
    for ended in batch:
        emit("execution.claim_lost", **about(ended.flight.claim))


def tell_moved(batch: Sequence[Told], moved: Sequence[Moved]) -> None:
    ended = {e.flight.claim.id: e for e in batch}
    emit(
        "executions.settled",
        rows=[_row(m, _outcome(m), ended[m.id].duration) for m in moved if m.id in ended],
    )
    for row in moved:
        told = ended.get(row.id)
        if told is not None:
            fields = {**about(told.flight.claim), "error": told.outcome.error}
            _tell(row, fields, told.duration)


def tell_recovered(moved: Sequence[Moved], by: str) -> None:
    """Recovery's own settlements."""
    for row in count_moved(moved):
        fields = {"execution_id": row.id, "task": row.job, "queue": row.queue, "by": by}
        _tell(row, fields, None)


def count_moved(moved: Sequence[Moved]) -> list[Moved]:
    """Counts those that no worker settled; which they are: all but the notices."""
    rows = [m for m in moved if m.move != "noticed"]
    if rows:
        emit("executions.settled", rows=[_row(m, _outcome(m), None) for m in rows])
    return rows


def _row(of: Claim | Moved, outcome: str, seconds: float | None) -> tuple[object, ...]:
    """What is counted of one settlement."""
    return (of.queue, of.job, outcome, seconds, of.id)


def _tell(row: Moved, fields: dict[str, object], seconds: float | None) -> None:
    event = f"execution.{'quarantined' if _quarantined(row) else row.move}"
    if row.reason == "unanswered" and row.state == "pending":
        event = "execution.unanswered"
    emit(event, state=row.state, reason=row.reason, seconds=seconds, **fields)
    if row.move == "interrupted" and row.interruptions >= _OFTEN:
        emit("execution.interrupted_often", interruptions=row.interruptions, **fields)


def _outcome(row: Moved) -> str:
    """The metric's word: `timed_out` is told apart from other failures."""
    if row.reason == "timed_out":
        return "timed_out"
    if row.move == "verified":
        return "succeeded"
    unverified = row.reason in _UNVERIFIED and row.state == "failed"
    orphaned = row.state == "failed" and row.move == "orphaned"
    return "quarantined" if unverified or orphaned else row.move


def _quarantined(row: Moved) -> bool:
    """Failed because nobody can know, rather than by an attempt that failed: for a person."""
    cut_short = row.move in ("orphaned", "interrupted") or row.reason in _UNVERIFIED
    return row.state == "failed" and cut_short
