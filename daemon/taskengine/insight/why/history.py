"""What happened to an execution, line by line: where it came from, each move, the run under way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from taskengine.insight.why.facts import Facts
from taskengine.insight.words import brief, clock, span
from taskengine.model.execution import Attempt


class Line(NamedTuple):
    """A moment and what happened then."""

    at: datetime
    text: str


def history(facts: Facts) -> list[Line]:
    """Oldest first."""
    lines = [Line(facts.row.created_at, _origin(facts)), *_left_out(facts)]
    lines += [Line(each.ended_at, _move(each)) for each in facts.history]
    return lines + list(_present(facts))


def _origin(facts: Facts) -> str:
    row = facts.row
    key = f", key {row.key}" if not row.key_is_drawn or row.scheduled_for else ""
    if row.scheduled_for is not None:
        return f"dispatched by the scheduler for {clock(row.scheduled_for, facts.at)}{key}"
    if row.event_source is not None:
        return (
            f"dispatched for the event {row.event_id} ({row.event_type}) of {row.event_source}{key}"
        )
    return f"dispatched{key}"


def _left_out(facts: Facts) -> Iterator[Line]:
    more = sum(facts.moves.values()) - len(facts.history)
    if more > 0 and facts.history:
        yield Line(facts.history[0].ended_at, f"… {more} older lines are left out")


def _move(each: Attempt) -> str:
    """`attempt 1 on host-a/4242: failed after 1.2 s: SMTPServerDisconnected`."""
    if each.move == "redriven":
        return f"redriven by {each.by}"
    if each.move == "cancelled" and each.started_at is None:
        return f"cancelled by {each.by}: {brief(each.reason)}"
    where = f" on {each.worker}" if each.worker else ""
    took = (
        f" after {span((each.ended_at - each.started_at).total_seconds())}"
        if each.started_at
        else ""
    )
    word = "failed, to be tried again" if each.move == "retried" else each.move
    reason = brief(each.error) or brief(each.reason)
    said = f": {reason}" if reason and reason != each.move else ""
    return f"attempt {each.attempt}{where}: {word}{took}{said}"


def _present(facts: Facts) -> Iterator[Line]:
    row = facts.row
    if row.state == "running" and row.claimed_at is not None:
        yield Line(row.claimed_at, f"attempt {row.attempt} on {row.worker}: claimed, and running")
    if row.state == "succeeded" and row.finished_at is not None:
        where = f" on {row.worker}" if row.worker else ""
        yield Line(row.finished_at, f"attempt {row.attempt}{where}: succeeded")
