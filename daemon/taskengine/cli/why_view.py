"""How an explanation is shown: the headline, what else, what happened, what to type."""

from __future__ import annotations

from datetime import datetime

from taskengine.cli import out
from taskengine.cli.words import clean
from taskengine.insight.why import Explanation
from taskengine.insight.words import clock


def show(told: Explanation, now: datetime, *, as_json: bool) -> None:
    """Plain words, or one object with a stable schema."""
    if as_json:
        out.line(_shape(told))
        return
    out.put(clean(told.headline))
    for verdict in told.also:
        out.put(f"  It {clean(verdict.text)}.")
    for line in told.lines:
        out.put(f"  {clock(line.at, now)}  {clean(line.text)}")
    for step in told.steps:
        out.put(f"next: {clean(step)}")


def _shape(told: Explanation) -> dict[str, object]:
    return {
        "id": told.execution_id,
        "state": told.state,
        "code": told.code,
        "headline": told.headline,
        "also": [{"code": each.code, "text": each.text} for each in told.also],
        "steps": list(told.steps),
        "history": [{"at": each.at, "text": each.text} for each in told.lines],
    }
