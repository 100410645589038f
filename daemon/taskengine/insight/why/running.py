"""How a running execution does, and whether its worker still holds it."""

from __future__ import annotations

from collections.abc import Iterator

from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.words import brief, span


def running(facts: Facts) -> list[Verdict]:
    """What is wrong with it first, then where it runs."""
    return [*_wrong(facts), _where(facts)]


def _wrong(facts: Facts) -> Iterator[Verdict]:
    row = facts.row
    if row.worker_dead_at is not None or row.worker_stopped_at is not None:
        yield Verdict(
            "running.worker_gone",
            f"was left behind by {row.worker}, which is gone: recovery takes it over in a moment",
        )
    elif row.worker_beat_at is not None and facts.ago(row.worker_beat_at) > facts.settings.lease:
        yield Verdict(
            "running.worker_silent",
            f"runs on {row.worker}, silent for {span(facts.ago(row.worker_beat_at))}: another daemon"
            " declares it dead after watching a whole lease, and takes its work over",
            ("taskengine status",),
        )
    if row.deadline_at is not None and facts.until(row.deadline_at) < 0:
        held = "its worker reports it as held" if row.worker_holds_over_time else "recovery decides"
        yield Verdict(
            "running.over_time",
            f"should have ended {span(facts.ago(row.deadline_at))} ago, at its deadline: {held}",
        )
    if row.abort_requested_at is not None:
        yield Verdict(
            "running.aborting",
            f"was asked to stop {span(facts.ago(row.abort_requested_at))} ago and still runs",
        )


def _where(facts: Facts) -> Verdict:
    row = facts.row
    since = f" for {span(facts.ago(row.claimed_at))}" if row.claimed_at else ""
    left = facts.until(row.deadline_at) if row.deadline_at else -1.0
    deadline = f", its deadline in {span(left)}" if left > 0 else ""
    message = f" ({brief(row.progress_message)})" if row.progress_message else ""
    progress = f", at {row.progress} %{message}" if row.progress is not None else message
    return Verdict(
        "running",
        f"is running on {row.worker or 'a worker that is forgotten'}{since}{deadline}{progress}",
    )
