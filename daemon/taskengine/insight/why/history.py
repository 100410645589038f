"""What happened to an execution, line by line: where it came from, each move, the run under way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from taskengine.insight.why.facts import Facts
from taskengine.insight.words import brief, clock, span
from taskengine.model.execution import Attempt

_CODES = {
    "worker_died": "its worker died",
    "over_time": "far past its deadline, and its worker could not settle it",
    "lost_claim": "its worker did not hold it",
    "Orphaned(worker_died)": "its worker died",
    "Orphaned(over_time)": "far past its deadline, and its worker could not settle it",
}


class Line(NamedTuple):
    """A moment and what happened then."""

    at: datetime
    text: str


def history(facts: Facts) -> list[Line]:
    """Oldest first."""
    lines = [Line(facts.row.created_at, _origin(facts)), *_left_out(facts)]
    lines += [Line(each.ended_at, _move(each)) for each in facts.history]
    return lines + list(_present(facts))


def error_of(each: Attempt) -> str:
    """What went wrong in it, else why it happened; the engine's own codes as words."""
    said = brief(each.error) or brief(each.reason)
    return _CODES.get(said, said)


def cancelled_when(each: Attempt) -> str:
    """A pending one; what was claimed before may have been begun before."""
    return "before it ran" if each.fence == 0 else "while it waited to run again"


def _origin(facts: Facts) -> str:
    row = facts.row
    key = "" if row.key_is_drawn and row.scheduled_for is None else f", key {brief(row.key)}"
    if row.scheduled_for is not None:
        return f"dispatched by the scheduler for {clock(row.scheduled_for, facts.at)}{key}"
    if row.event_source is not None:
        return f"dispatched {_event(facts)}{key}"
    if row.key.startswith("notice:"):
        return f"dispatched by the engine, to tell of failures{key}"
    return f"dispatched{key}"


def _event(facts: Facts) -> str:
    row = facts.row
    kind = f" ({brief(row.event_type)})" if row.event_type else ""
    event = f"webhook event {brief(row.event_id)}{kind} of {row.event_source}"
    if row.key.startswith("webhook-recovery:"):
        return f"by the reconciler for the stranded {event}"
    if row.key.startswith("webhook-manual:"):
        return f"by an operator for the {event}"
    return f"for the {event}"


def _left_out(facts: Facts) -> Iterator[Line]:
    more = sum(facts.moves.values()) - len(facts.history)
    if more > 0 and facts.history:
        yield Line(
            facts.history[0].ended_at,
            f"{more} older lines are left out: `taskengine executions show {facts.row.id}`",
        )


def _move(each: Attempt) -> str:
    """`attempt 1 on host-a/4242: failed after 1.2 s: SMTPServerDisconnected`."""
    if each.move == "redriven":
        return f"run again by {each.by}"
    why = f": {brief(each.reason)}" if each.reason else ""
    if each.move == "cancelled" and each.started_at is None:
        return f"cancelled by {each.by} {cancelled_when(each)}{why}"
    if each.move == "abort_asked":
        return f"asked to stop by {each.by} while it ran{why}"
    if each.move == "unclaimable":
        return f"not to be claimed by {each.by}: {error_of(each)}"
    where = f" on {each.worker}" if each.worker else ""
    return f"attempt {each.attempt}{where}: {_outcome(each)}"


def _outcome(each: Attempt) -> str:
    took = ""
    if each.started_at is not None:
        took = f" after {span((each.ended_at - each.started_at).total_seconds())}"
    said = error_of(each)
    why = f": {said}" if said and said != each.move else ""
    match each.move:
        case "retried" | "failed" if each.reason in ("unverified", "unanswered"):
            return f"not run{why}"
        case "retried":
            return f"failed{took}{why}"
        case "discarded":
            return f"failed for good{took}{why}"
        case "released":
            return f"given back, its body not begun{why}"
        case "interrupted":
            return f"stopped in its body{took}{why}"
        case "orphaned":
            return f"lost{took}{why}, found by {each.by}"
        case "cancelled":
            return f"cancelled{took}"
        case "verified":
            return "not run again: its verify found that it had been done"
        case _:
            return f"{each.move}{took}{why}"


def _present(facts: Facts) -> Iterator[Line]:
    row = facts.row
    where = f" on {row.worker}" if row.worker else ""
    verified = facts.last is not None and facts.last.move == "verified"
    if row.state == "running" and row.claimed_at is not None:
        since = span(facts.ago(row.claimed_at))
        yield Line(row.claimed_at, f"attempt {row.attempt}{where}: running for {since}")
    if row.state == "succeeded" and row.finished_at is not None and not verified:
        took = (
            f" after {span((row.finished_at - row.claimed_at).total_seconds())}"
            if row.claimed_at
            else ""
        )
        yield Line(row.finished_at, f"attempt {row.attempt}{where}: succeeded{took}")
