"""How an explanation is shown: the headline, what else, what happened, what to type."""

from __future__ import annotations

from taskengine.cli import out
from taskengine.cli.words import clean
from taskengine.insight.why import Explanation, Facts
from taskengine.insight.words import clock


def show(told: Explanation, *, as_json: bool) -> None:
    """Plain words, or one object with a stable schema."""
    if as_json:
        out.line(_shape(told))
        return
    out.put(clean(told.headline))
    for verdict in told.also:
        out.put(f"  It {clean(verdict.text)}.")
    for line in told.lines:
        out.put(f"  {clock(line.at, told.facts.at)}  {clean(line.text)}")
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
        "facts": _facts(told.facts),
    }


def _facts(facts: Facts) -> dict[str, object]:
    """Every key is always there, None where nothing is known or asked."""
    row, pace, key = facts.row, facts.pace, facts.key
    return {
        "at": facts.at,
        "job": row.job,
        "queue": row.queue,
        "store": row.store,
        "attempt": row.attempt,
        "max_attempts": row.max_attempts,
        "orphanings": row.orphanings,
        "interruptions": row.interruptions,
        "run_at": row.run_at,
        "due_in_seconds": facts.until(row.run_at),
        "check_at": row.check_at,
        "worker": row.worker,
        "claimed_at": row.claimed_at,
        "deadline_at": row.deadline_at,
        "finished_at": row.finished_at,
        "redis": facts.redis.memory,
        "before_it": facts.before,
        "waiting": facts.waiting,
        "served_first": facts.ahead,
        "per_minute": pace.per_minute if pace else None,
        "eta_seconds": facts.eta,
        "paused_by": row.paused_by,
        "paused_at": row.paused_at,
        "exclusive_key": row.exclusive_key,
        "key_holder": key.holder if key else None,
        "able_daemons": [each.name for each in facts.able],
    }
