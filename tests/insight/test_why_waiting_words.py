"""What is said of an execution that waits for its time, its queue or a daemon."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from taskengine.store.why import Pace
from tests.insight.why_facts import (
    DAEMON,
    LATER,
    LINE,
    NOW,
    URGENT_TOO,
    Case,
    ago,
    attempt,
    check,
    told_by,
)

CASES: list[Case] = [
    # ---- pending: its time, its queue, its daemons ----
    ("pending.next", {}, {}, "is next in line in queue 'payroll'."),
    (
        "pending.line",
        {},
        {**LINE, "pace": Pace(600, 300.0)},
        (
            "waits its turn: number 14 of 210 in queue 'payroll', which moves at 120 a minute (600 ended"
            " in the last 5 min 0 s), so in about 6.5 s."
        ),
    ),
    (
        "pending.line",
        {},
        {**LINE, "pace": Pace(1, 300.0)},
        "moves at 0.2 a minute (1 ended in the last 5 min 0 s), so in about 1 h 5 min.",
    ),
    ("pending.line", {}, LINE, "; nothing of that queue has ended in the last 5 min 0 s."),
    (
        "pending.line",
        {},
        {"redis": URGENT_TOO},
        "number 1 of 1 in queue 'payroll', after 4 in 'urgent', served first; nothing of",
    ),
    (
        "pending.next",
        {},
        {"redis": URGENT_TOO, "paused": ["urgent"]},
        "is next in line in queue 'payroll'.",
    ),
    (
        "pending.retry",
        LATER,
        told_by(attempt("retried", "failed", "no")),
        "is waiting for its retry, due in 41 s.",
    ),
    (
        "pending.retry_after_orphaning",
        LATER,
        told_by(attempt("orphaned", "worker_died")),
        "was lost with its worker and is waiting to be run again, due in 41 s.",
    ),
    (
        "pending.snoozed",
        LATER,
        told_by(attempt("snoozed", "mailer away")),
        "was snoozed by its own body (mailer away), due in 41 s.",
    ),
    (
        "pending.snoozed",
        LATER,
        told_by(attempt("snoozed", "snoozed")),
        "was snoozed by its own body, due in 41 s.",
    ),
    (
        "pending.released",
        LATER,
        told_by(attempt("released", "unanswered")),
        "was given back unbegun (unanswered), due in 41 s.",
    ),
    (
        "pending.early",
        {"run_at": NOW + timedelta(days=1)},
        {},
        "is not due yet: due in 1 d 0 h, at 2026-11-03 10:02:48Z.",
    ),
    (
        "pending.unlisted",
        {"queue": "gone"},
        {"daemons": [replace(DAEMON, queues=["gone"])]},
        "waits in queue 'gone', which is not in [engine] queues any more: list it again.",
    ),
    (
        "pending.paused",
        {"paused_at": ago(168), "paused_by": "cli:anna@x", "pause_reason": "bank holiday"},
        {},
        "waits in queue 'payroll', which cli:anna@x paused at 10:00:00Z: bank holiday.",
    ),
    ("pending.undefined", {"is_defined": False}, {}, "has no definition any more"),
    ("pending.no_daemon", {}, {"daemons": []}, "waits: no daemon runs."),
    (
        "pending.no_daemon",
        {},
        {"daemons": [replace(DAEMON, silence=13.0)]},
        "waits: no daemon runs.",
    ),
    (
        "pending.unpolled",
        {},
        {"daemons": [replace(DAEMON, queues=["low"])]},
        "waits: no running daemon polls queue 'payroll': add it",
    ),
    (
        "pending.unpolled",
        {},
        {"daemons": [replace(DAEMON, draining=True)]},
        "polls queue 'payroll' (host-a/1: draining): add it",
    ),
    (
        "pending.unknown_job",
        {},
        {"daemons": [replace(DAEMON, jobs=[])]},
        "no daemon that polls queue 'payroll' knows the job 'send-paystub': deploy it",
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_each_situation_has_its_words(case: Case) -> None:
    check(case)
