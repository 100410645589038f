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
    again = facts.row.state in ("running", "succeeded")
    then = (
        "and was begun again: what it does outside the database may have been done more than once"
        if again
        else "and what it does outside the database may have been done already"
    )
    for move, how in _CUT_SHORT.items():
        if count := facts.moves.get(move, 0):
            yield Verdict(f"again.{move}", f"{how} {times(count)}, {then}")


def verify_first(facts: Facts) -> Iterator[Verdict]:
    """What was cut short under `on_interrupt = "verify"` is asked before its body runs again."""
    if facts.row.verify_next and facts.row.on_interrupt != "retry":
        yield Verdict(
            "verify_first",
            "is asked first whether it was done already (its job's verify): it was cut short before",
        )
