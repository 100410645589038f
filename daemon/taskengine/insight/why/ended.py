"""How an execution ended, and why it was begun more than once."""

from __future__ import annotations

from collections.abc import Iterator

from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.words import brief, clock, span, times
from taskengine.model.execution import Attempt


def ended(facts: Facts) -> list[Verdict]:
    """Its end first."""
    end = {"succeeded": _succeeded, "failed": _failed}.get(facts.row.state, _cancelled)(facts)
    return [end, *_again(facts), *_emptied(facts)]


def _succeeded(facts: Facts) -> Verdict:
    row = facts.row
    if facts.last is not None and facts.last.move == "verified":
        return Verdict("succeeded.verified", "succeeded: its verify found it done already")
    took = ""
    if row.finished_at and row.claimed_at:
        took = f" after {span((row.finished_at - row.claimed_at).total_seconds())}"
    return Verdict("succeeded", f"succeeded at attempt {row.attempt}{took}{_when(facts)}")


def _failed(facts: Facts) -> Verdict:
    row, last = facts.row, facts.last
    steps = (f"taskengine executions show {row.id}", f"taskengine executions redrive {row.id}")
    code, text = _reason(facts, last) if last is not None else ("failed", "failed")
    error = f": {brief(row.last_error)}" if row.last_error else ""
    return Verdict(code, f"{text}{_when(facts)}{error}", steps)


def _reason(facts: Facts, last: Attempt) -> tuple[str, str]:
    """Why nobody tries it again."""
    row = facts.row
    if last.reason == "unverified":
        return "failed.unverified", "is quarantined: its verify could not tell whether it was done"
    if last.move == "discarded":
        return "failed.discarded", "failed for good: its body said not to try again"
    if last.move == "unclaimable":
        return "failed.unclaimable", "failed: it could not be claimed"
    if last.move == "orphaned" and row.orphanings >= (row.max_orphanings or 1 << 31):
        return (
            "failed.orphaned",
            f"is quarantined: its worker died or hung {times(row.orphanings)} while it ran",
        )
    if last.move == "interrupted" and row.interruptions >= (row.max_interruptions or 1 << 31):
        return (
            "failed.interrupted",
            f"is quarantined: shutdowns interrupted it {times(row.interruptions)}",
        )
    if last.move in ("orphaned", "interrupted") and row.on_interrupt == "fail":
        return "failed.on_interrupt", f"failed: it was {last.move}, and on_interrupt is 'fail'"
    return "failed.exhausted", "failed, and its attempts are used up"


def _cancelled(facts: Facts) -> Verdict:
    row, last = facts.row, facts.last
    steps = (f"taskengine executions redrive {row.id}",)
    if last is None:
        return Verdict("cancelled", f"was cancelled{_when(facts)}", steps)
    how = "while it ran" if last.started_at is not None else "before it ran"
    by = f" by {last.by}" if last.started_at is None else ""
    return Verdict(
        "cancelled", f"was cancelled{by} {how}{_when(facts)}: {brief(last.reason)}", steps
    )


def _again(facts: Facts) -> Iterator[Verdict]:
    """Whether its body may have been begun more than once for one attempt's worth of work."""
    row = facts.row
    for move, why in (("orphaned", "its worker died or hung"), ("interrupted", "a shutdown")):
        if count := facts.moves.get(move, 0):
            yield Verdict(
                f"again.{move}",
                f"was begun again after it was {move} {times(count)} ({why}): what it does outside"
                " the database may have been done more than once",
            )
    if row.result_error is not None:
        yield Verdict(
            "result_not_stored", f"its result could not be stored: {brief(row.result_error)}"
        )


def _emptied(facts: Facts) -> Iterator[Verdict]:
    if facts.row.emptied_at is not None:
        yield Verdict(
            "emptied",
            f"was emptied by retention {clock(facts.row.emptied_at, facts.at)}: only its key is kept",
        )


def _when(facts: Facts) -> str:
    finished = facts.row.finished_at
    return f", at {clock(finished, facts.at)}" if finished is not None else ""
