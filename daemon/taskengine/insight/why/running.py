"""How a running execution does, and whether its worker still holds it."""

from __future__ import annotations

from collections.abc import Iterator

from taskengine.insight.why.begun import begun, verify_first
from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.words import brief, clock, span


def running(facts: Facts) -> list[Verdict]:
    """What is wrong with it first, then where it runs."""
    return [*_worker(facts), *_asked(facts), _where(facts), *verify_first(facts), *begun(facts)]


def _worker(facts: Facts) -> Iterator[Verdict]:
    row = facts.row
    nobody = not facts.living
    then = (
        "a daemon that is started takes it over" if nobody else "recovery takes it over within 3 s"
    )
    steps = ("taskengine run",) if nobody else ()
    if row.worker_dead_at is not None or row.worker_stopped_at is not None:
        yield Verdict(
            "running.worker_gone", f"was left behind by {row.worker}, which is gone: {then}", steps
        )
    elif row.worker_beat_at is not None and facts.ago(row.worker_beat_at) > facts.settings.lease:
        yield Verdict(
            "running.worker_silent",
            f"runs on {row.worker}, which has been silent for {span(facts.ago(row.worker_beat_at))}:"
            f" a daemon that sees it silent for a whole {span(facts.settings.lease)} declares it dead"
            " and takes its work over",
            steps or ("taskengine status",),
        )


def _asked(facts: Facts) -> Iterator[Verdict]:
    row = facts.row
    if row.abort_requested_at is not None:
        asked = facts.asked
        by = f" by {asked.by}" if asked is not None else ""
        why = f" ({brief(asked.reason)})" if asked is not None and asked.reason else ""
        yield Verdict(
            "running.aborting",
            f"was asked to stop{by} {span(facts.ago(row.abort_requested_at))} ago{why} and still runs:"
            " it ends as cancelled, or as succeeded where its body is quicker",
        )
    if row.deadline_at is None or facts.until(row.deadline_at) >= 0:
        return
    late = f"should have ended {span(facts.ago(row.deadline_at))} ago, at its deadline"
    if row.worker_holds_over_time:
        yield Verdict(
            "running.holds_over_time",
            f"{late}: its body does not stop, and {row.worker} still holds it",
            (f"taskengine executions cancel {row.id}",),
        )
    else:
        taken = (
            f"; where that fails, recovery takes it at {clock(facts.taken_at, facts.at)}"
            if facts.taken_at
            else ""
        )
        yield Verdict("running.over_time", f"{late}: its worker settles it as timed out{taken}")


def _where(facts: Facts) -> Verdict:
    row = facts.row
    since = f" for {span(facts.ago(row.claimed_at))}" if row.claimed_at else ""
    left = facts.until(row.deadline_at) if row.deadline_at else -1.0
    deadline = f", its deadline in {span(left)}" if left > 0 else ""
    message = f' "{brief(row.progress_message)}"' if row.progress_message else ""
    percent = f" {row.progress} %" if row.progress is not None else ""
    progress = f", progress{percent}{message}" if percent or message else ""
    worker = row.worker or "a daemon that is forgotten"
    return Verdict("running", f"is running on {worker}{since}{deadline}{progress}")
