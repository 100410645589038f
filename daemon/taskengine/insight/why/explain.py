"""From the facts to the words: one headline, what else is in the way, what to type, what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskengine.insight.why.ended import ended
from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.why.history import Line, history
from taskengine.insight.why.pending import pending
from taskengine.insight.why.running import running


@dataclass(frozen=True, slots=True)
class Explanation:
    """`code`: stable, for machines. `also`: what else is in its way, or worth knowing; `steps`: what
    to type; `lines`: what happened; `facts`: what all of it was made from."""

    execution_id: int
    state: str
    code: str
    headline: str
    also: Sequence[Verdict]
    steps: Sequence[str]
    lines: Sequence[Line]
    facts: Facts


def explain(facts: Facts) -> Explanation:
    """What they mean. Pure."""
    row = facts.row
    verdicts = {"pending": pending, "running": running}.get(row.state, ended)(facts)
    first, *rest = verdicts
    steps = dict.fromkeys(step for each in verdicts for step in each.steps)
    return Explanation(
        execution_id=row.id,
        state=row.state,
        code=first.code,
        headline=f"{_name(facts)} {first.text}.",
        also=rest,
        steps=tuple(steps),
        lines=history(facts),
        facts=facts,
    )


def _name(facts: Facts) -> str:
    row = facts.row
    store = f" for store {row.store}" if row.store is not None else ""
    most = max(1, row.max_attempts) if row.max_attempts is not None else 0
    attempts = f" of {most}" if row.attempt <= most else ""  # a redrive goes on counting
    return f"{row.id} {row.job}{store} (attempt {row.attempt}{attempts})"
