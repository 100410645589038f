"""Whether the body may have been begun more than once, and what guards against that."""

from __future__ import annotations

from collections.abc import Iterator

from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.words import times

_CUT_SHORT = {
    "orphaned": "was lost with its worker",
    "interrupted": "was stopped in its body by a shutdown",
}


def begun(facts: Facts) -> Iterator[Verdict]:
    """Each way in which runs of it were cut short, with nobody able to know how far they had come."""
    then = _since_then(facts)
    for move, how in _CUT_SHORT.items():
        if count := facts.moves.get(move, 0):
            yield Verdict(f"again.{move}", f"{how} {times(count)}, {then}")


def _since_then(facts: Facts) -> str:
    """Whether its body was begun again after that, as far as anybody can know."""
    if facts.row.state not in ("running", "succeeded"):
        return "and what it does outside the database may have been done already"
    once = sum(facts.moves.get(move, 0) for move in _CUT_SHORT) == 1
    if once and facts.last is not None and facts.last.move == "verified":
        return "and was not begun again"
    if facts.row.state == "running" and _is_asked_first(facts):
        return "and is begun again only where its verify says that it was not done"
    return (
        "and was begun again: what it does outside the database may have been done more than once"
    )


def verify_first(facts: Facts) -> Iterator[Verdict]:
    """What was cut short under `on_interrupt = "verify"` is asked before its body runs again."""
    if _is_asked_first(facts):
        yield Verdict(
            "verify_first",
            "is asked first whether it was done already (its job's verify): it was cut short before",
        )


def _is_asked_first(facts: Facts) -> bool:
    return facts.row.verify_next and facts.row.on_interrupt != "retry"
