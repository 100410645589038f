"""How an execution ended, and why nobody tries it again."""

from __future__ import annotations

from collections.abc import Iterator

from taskengine.insight.why.begun import begun
from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.why.history import cancelled_when, error_of
from taskengine.insight.words import brief, clock, span, times
from taskengine.model.execution import Attempt

_MANY = 1 << 31


def ended(facts: Facts) -> list[Verdict]:
    """Its end first."""
    end = {"succeeded": _succeeded, "failed": _failed}.get(facts.row.state, _cancelled)(facts)
    return [end, *_result(facts), *begun(facts), *_emptied(facts)]


def _succeeded(facts: Facts) -> Verdict:
    row = facts.row
    if facts.last is not None and facts.last.move == "verified":
        return Verdict(
            "succeeded.verified",
            f"succeeded{_when(facts)}: its job's verify found that it had been done already",
        )
    took = ""
    if row.finished_at and row.claimed_at:
        took = f" after {span((row.finished_at - row.claimed_at).total_seconds())}"
    return Verdict("succeeded", f"succeeded at attempt {row.attempt}{took}{_when(facts)}")


def _failed(facts: Facts) -> Verdict:
    row, last = facts.row, facts.last
    code, text = _reason(facts, last) if last is not None else ("failed", f"failed{_when(facts)}")
    error = error_of(last) if last is not None else brief(row.last_error)
    said = f": {error}" if error else ""
    steps = (f"taskengine executions show {row.id}", *_again(facts))
    return Verdict(code, f"{text}{said}", steps)


def _reason(facts: Facts, last: Attempt) -> tuple[str, str]:
    row, at = facts.row, _when(facts)
    if last.reason == "unverified":
        unable = "its verify could not tell"
        return (
            "failed.unverified",
            f"was quarantined{at}, for a person to find out whether it was done: {unable}",
        )
    if last.reason == "unanswered":
        often = times(row.interruptions)
        return (
            "failed.unanswered",
            f"was quarantined{at}: its verify gave no answer, it was stopped or put off {often}",
        )
    match last.move:
        case "discarded":
            return "failed.discarded", f"failed for good{at}: its body said not to try again"
        case "unclaimable":
            return "failed.unclaimable", f"failed{at}: its row could not be claimed"
        case "orphaned" | "interrupted":
            return _cut_short(facts, last.move)
        case _:
            return "failed.exhausted", f"failed{at}: {_used_up(facts)}"


def _cut_short(facts: Facts, move: str) -> tuple[str, str]:
    row, at = facts.row, _when(facts)
    if move == "interrupted" and row.interruptions >= (row.max_interruptions or _MANY):
        return (
            "failed.interrupted",
            f"was quarantined{at}: shutdowns stopped it {times(row.interruptions)}",
        )
    if move == "orphaned" and row.orphanings >= (row.max_orphanings or _MANY):
        often = times(row.orphanings)
        return (
            "failed.orphaned",
            f"was quarantined{at}: it was lost with its worker {often}, and may be what kills them",
        )
    if row.on_interrupt == "fail":
        how = "lost with its worker" if move == "orphaned" else "stopped by a shutdown"
        return (
            "failed.on_interrupt",
            f"failed{at}: it was {how} while it ran, and its job's on_interrupt says 'fail'",
        )
    return "failed.exhausted", f"failed{at}: it was lost with its worker, and {_used_up(facts)}"


def _used_up(facts: Facts) -> str:
    most = facts.row.max_attempts
    return "its attempts are used up" if most is None or most > 1 else "its job allows no retry"


def _cancelled(facts: Facts) -> Verdict:
    last = facts.last
    if last is None or last.move != "cancelled":
        return Verdict("cancelled", f"was cancelled{_when(facts)}", _again(facts))
    if last.started_at is None:
        why = f": {brief(last.reason)}" if last.reason else ""
        return Verdict(
            "cancelled.pending",
            f"was cancelled{_when(facts)} by {last.by} {cancelled_when(last)}{why}",
            _again(facts),
        )
    return Verdict(
        "cancelled.running",
        f"was cancelled{_when(facts)} while it ran{_asked(facts)}",
        _again(facts),
    )


def _asked(facts: Facts) -> str:
    """By whom, and when."""
    asked, at = facts.asked, facts.row.abort_requested_at
    if asked is not None:
        why = f": {brief(asked.reason)}" if asked.reason else ""
        return f", as {asked.by} asked at {clock(asked.ended_at, facts.at)}{why}"
    return f", as it was asked to at {clock(at, facts.at)}" if at is not None else ""


def _again(facts: Facts) -> tuple[str, ...]:
    """What retention has emptied cannot run again."""
    row = facts.row
    return () if row.emptied_at is not None else (f"taskengine executions redrive {row.id}",)


def _result(facts: Facts) -> Iterator[Verdict]:
    if facts.row.result_error is not None:
        error = brief(facts.row.result_error)
        yield Verdict(
            "result_not_stored", f"has no result: what it returned could not be stored: {error}"
        )


def _emptied(facts: Facts) -> Iterator[Verdict]:
    if facts.row.emptied_at is not None:
        at = clock(facts.row.emptied_at, facts.at)
        yield Verdict(
            "emptied", f"was emptied by retention at {at}: its key is kept, it cannot run again"
        )


def _when(facts: Facts) -> str:
    finished = facts.row.finished_at
    return f" at {clock(finished, facts.at)}" if finished is not None else ""
