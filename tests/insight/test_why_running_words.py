"""What is said of an execution that runs or is over."""

from __future__ import annotations

import pytest

from tests.insight.why_facts import (
    CANCELLED,
    FAILED,
    OVER,
    RUNS,
    Case,
    ago,
    attempt,
    check,
    told_by,
)

CASES: list[Case] = [
    # ---- running ----
    (
        "running",
        {**RUNS, "progress": 40, "progress_message": "day 2 of 5"},
        {},
        'is running on host-a/1 for 12 s, its deadline in 4 min 48 s, progress 40 % "day 2 of 5".',
    ),
    (
        "running.worker_gone",
        {**RUNS, "worker_dead_at": ago(1)},
        {},
        "was left behind by host-a/1, which is gone: recovery takes it over within 3 s.",
    ),
    (
        "running.worker_gone",
        {**RUNS, "worker_stopped_at": ago(1)},
        {"daemons": []},
        "which is gone: a daemon that is started takes it over.",
    ),
    (
        "running.worker_silent",
        {**RUNS, "worker_beat_at": ago(40)},
        {},
        (
            "runs on host-a/1, which has been silent for 40 s: a daemon that sees it silent for a whole"
            " 12 s declares it dead and takes its work over."
        ),
    ),
    (
        "running.aborting",
        {**RUNS, "abort_requested_at": ago(3)},
        {},
        "was asked to stop 3.0 s ago and still runs: it ends as cancelled",
    ),
    (
        "running.over_time",
        {**RUNS, "deadline_at": ago(48)},
        {},
        (
            "should have ended 48 s ago, at its deadline: its worker settles it as timed out; where that"
            " fails, recovery takes it at 10:07:00Z."
        ),
    ),
    (
        "running.holds_over_time",
        {**RUNS, "deadline_at": ago(48), "worker_holds_over_time": True},
        {},
        "its body does not stop, and host-a/1 still holds it.",
    ),
    # ---- over ----
    (
        "succeeded",
        {**OVER, "state": "succeeded"},
        {},
        "succeeded at attempt 1 after 7.0 s at 10:02:43Z.",
    ),
    (
        "succeeded.verified",
        {**OVER, "state": "succeeded"},
        told_by(attempt("verified", "verified")),
        "succeeded at 10:02:43Z: its job's verify found that it had been done already.",
    ),
    (
        "failed.exhausted",
        {**FAILED, "attempt": 5},
        told_by(attempt("failed", "failed", "ValueError: no\nsecond line")),
        "failed at 10:02:43Z: its attempts are used up: ValueError: no.",
    ),
    (
        "failed.exhausted",
        {**FAILED, "max_attempts": 0},
        told_by(attempt("failed", "failed", "no")),
        "failed at 10:02:43Z: its job allows no retry: no.",
    ),
    (
        "failed.exhausted",
        {**FAILED, "orphanings": 1},
        told_by(attempt("orphaned", "worker_died", "Orphaned(worker_died)")),
        (
            "failed at 10:02:43Z: it was lost with its worker, and its attempts are used up: its worker"
            " died."
        ),
    ),
    (
        "failed.discarded",
        FAILED,
        told_by(attempt("discarded", "discarded", "no such employee")),
        "failed for good at 10:02:43Z: its body said not to try again: no such employee.",
    ),
    (
        "failed.unclaimable",
        FAILED,
        told_by(attempt("unclaimable", "data error", "cannot be claimed: odd", started_at=None)),
        "failed at 10:02:43Z: its row could not be claimed: cannot be claimed: odd.",
    ),
    (
        "failed.orphaned",
        {**FAILED, "orphanings": 3},
        told_by(attempt("orphaned", "worker_died")),
        "was quarantined at 10:02:43Z: it was lost with its worker 3 times, and may be what kills them",
    ),
    (
        "failed.interrupted",
        {**FAILED, "interruptions": 20},
        told_by(attempt("interrupted", "shutdown")),
        "was quarantined at 10:02:43Z: shutdowns stopped it 20 times",
    ),
    (
        "failed.on_interrupt",
        {**FAILED, "on_interrupt": "fail"},
        told_by(attempt("orphaned", "worker_died")),
        "it was lost with its worker while it ran, and its job's on_interrupt says 'fail'",
    ),
    (
        "failed.unverified",
        FAILED,
        told_by(attempt("failed", "unverified", "no answer")),
        "was quarantined at 10:02:43Z, for a person to find out whether it was done: its verify",
    ),
    (
        "failed.unanswered",
        {**FAILED, "interruptions": 20},
        told_by(attempt("failed", "unanswered", "verify: timed out")),
        "its verify gave no answer, it was stopped or put off 20 times: verify: timed",
    ),
    (
        "cancelled.pending",
        CANCELLED,
        told_by(attempt("cancelled", "wrong period", by="cli:anna@x", fence=0, started_at=None)),
        "was cancelled at 10:02:43Z by cli:anna@x before it ran: wrong period.",
    ),
    (
        "cancelled.pending",
        CANCELLED,
        told_by(attempt("cancelled", "wrong period", by="cli:anna@x", started_at=None)),
        "was cancelled at 10:02:43Z by cli:anna@x while it waited to run again: wrong period.",
    ),
    (
        "cancelled.running",
        {**CANCELLED, "abort_requested_at": ago(8)},
        told_by(attempt("cancelled", "asked to abort")),
        "was cancelled at 10:02:43Z while it ran, as it was asked to at 10:02:40Z.",
    ),
    (
        "cancelled.running",
        {**CANCELLED, "fence": 2, "abort_requested_at": ago(8)},
        told_by(
            attempt("abort_asked", "of the run before", by="bob"),
            attempt("cancelled", "asked to abort"),
            attempt("redriven", "operator", by="bob"),
            attempt("abort_asked", "wrong period", by="cli:anna@x", fence=2, ended_at=ago(8)),
            attempt("cancelled", "asked to abort", fence=2),
        ),
        (
            "was cancelled at 10:02:43Z while it ran, as cli:anna@x asked at 10:02:40Z: wrong"
            " period."
        ),
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_each_situation_has_its_words(case: Case) -> None:
    check(case)
