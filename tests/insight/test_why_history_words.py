"""What stands beside the headline: what else is worth knowing, and each line of the history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from taskengine.insight.why import explain
from taskengine.model.execution import Attempt
from tests.insight.why_facts import (
    FAILED,
    LATER,
    NOW,
    NOWHERE,
    OVER,
    RUNS,
    ago,
    attempt,
    made,
    told_by,
)


@pytest.mark.parametrize(
    ("code", "row", "facts", "words"),
    [
        ("pending.no_daemon", LATER, {"daemons": []}, "no daemon runs"),
        ("pending.lost", {"paused_at": ago(60), "paused_by": "x"}, NOWHERE, "it was lost"),
        (
            "job.disabled",
            {"is_enabled": False},
            {},
            "runs all the same, though its job is disabled",
        ),
        ("job.broken", {"definition_error": "no queue 'x'"}, {}, "is skipped: no queue 'x'"),
        ("verify_first", {"verify_next": True, "on_interrupt": "verify"}, {}, "asked first"),
        ("again.orphaned", RUNS, {"moves": {"orphaned": 1}}, "once, and was begun again"),
        (
            "again.interrupted",
            {**OVER, "state": "succeeded"},
            {"moves": {"interrupted": 2}},
            "twice, and was begun again: what it does outside the database may have been done more",
        ),
        (
            "again.interrupted",
            {**OVER, "state": "succeeded"},
            {**told_by(attempt("verified", "verified")), "moves": {"interrupted": 1}},
            "once, and was not begun again",
        ),
        (
            "again.interrupted",
            {**OVER, "state": "succeeded"},
            {**told_by(attempt("verified", "verified")), "moves": {"interrupted": 2}},
            "twice, and was begun again",
        ),
        (
            "again.orphaned",
            {**RUNS, "verify_next": True, "on_interrupt": "verify"},
            {"moves": {"orphaned": 1}},
            "once, and is begun again only where its verify says that it was not done",
        ),
        ("again.orphaned", FAILED, {"moves": {"orphaned": 3}}, "may have been done already"),
        (
            "result_not_stored",
            {**OVER, "state": "succeeded", "result_error": "too large"},
            {},
            "has no result: what it returned could not be stored: too large",
        ),
        ("emptied", {**FAILED, "emptied_at": ago(1)}, {}, "its key is kept, it cannot run again"),
        ("running", {**RUNS, "abort_requested_at": ago(3)}, {}, "is running on host-a/1"),
    ],
)
def test_what_else_is_worth_knowing_stands_beside(
    code: str, row: Mapping[str, Any], facts: Mapping[str, Any], words: str
) -> None:
    said = {each.code: each.text for each in explain(made(row, facts)).also}
    assert words in said[code]


def test_what_cannot_run_again_is_not_to_be_redriven() -> None:
    redrive = "taskengine executions redrive 4711"
    assert redrive in explain(made(FAILED, {})).steps
    assert redrive not in explain(made({**FAILED, "emptied_at": NOW}, {})).steps


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({}, "dispatched, key paystub:7:2026-11"),
        ({"key_is_drawn": True}, "dispatched"),
        (
            {"scheduled_for": ago(168), "key_is_drawn": True},
            "dispatched by the scheduler for 10:00:00Z, key paystub:7:2026-11",
        ),
        (
            {"event_source": "everee", "event_id": "evt_1", "event_type": "payment.paid"},
            "dispatched for the webhook event evt_1 (payment.paid) of everee, key paystub:7:2026-11",
        ),
        (
            {"event_source": "everee", "event_id": "evt_1", "key": "webhook-recovery:1:x"},
            (
                "dispatched by the reconciler for the stranded webhook event evt_1 of everee, key"
                " webhook-recovery:1:x"
            ),
        ),
    ],
)
def test_where_it_came_from(row: Mapping[str, Any], line: str) -> None:
    assert explain(made(row, {})).lines[0].text == line


@pytest.mark.parametrize(
    ("each", "line"),
    [
        (
            attempt("retried", "failed", "SMTPServerDisconnected"),
            "attempt 1 on host-a/1: failed after 7.0 s: SMTPServerDisconnected",
        ),
        (
            attempt("retried", "timed_out", "timed out"),
            "attempt 1 on host-a/1: failed after 7.0 s: timed out",
        ),
        (
            attempt("orphaned", "over_time", "Orphaned(over_time)", by="host-b/2"),
            (
                "attempt 1 on host-a/1: lost after 7.0 s: far past its deadline, and its worker could not"
                " settle it, found by host-b/2"
            ),
        ),
        (
            attempt("interrupted", "shutdown"),
            "attempt 1 on host-a/1: stopped in its body after 7.0 s: shutdown",
        ),
        (
            attempt("released", "lost_claim"),
            "attempt 1 on host-a/1: given back, its body not begun: its worker did not hold it",
        ),
        (
            attempt("snoozed", "not yet", worker=None),
            "attempt 1: snoozed after 7.0 s: not yet",
        ),
        (
            attempt("failed", "unverified", "who knows"),
            "attempt 1 on host-a/1: not run: who knows",
        ),
        (attempt("cancelled", "asked to abort"), "attempt 1 on host-a/1: cancelled after 7.0 s"),
        (
            attempt("cancelled", "wrong", by="anna", fence=0, started_at=None),
            "cancelled by anna before it ran: wrong",
        ),
        (
            attempt("cancelled", "wrong", by="anna", fence=1, started_at=None),
            "cancelled by anna while it waited to run again: wrong",
        ),
        (
            attempt("abort_asked", "wrong", by="anna", started_at=None),
            "asked to stop by anna while it ran: wrong",
        ),
        (attempt("redriven", "operator", by="anna", started_at=None), "run again by anna"),
        (
            attempt("unclaimable", "data error", "odd", started_at=None),
            "not to be claimed by host-a/1: odd",
        ),
        (
            attempt("verified", "verified"),
            "attempt 1 on host-a/1: not run again: its verify found that it had been done",
        ),
    ],
)
def test_each_move_is_a_line_in_words(each: Attempt, line: str) -> None:
    lines = explain(made({}, told_by(each))).lines
    assert [(one.at, one.text) for one in lines[1:]] == [(ago(5), line)]


def test_the_run_under_way_is_the_last_line() -> None:
    assert explain(made(RUNS, {})).lines[-1].text == "attempt 1 on host-a/1: running for 12 s"


def test_a_long_history_says_how_much_of_it_is_left_out() -> None:
    facts = {**told_by(attempt("snoozed", "x")), "moves": {"snoozed": 401}}
    lines = explain(made({}, facts)).lines
    assert lines[1].text == "400 older lines are left out: `taskengine executions show 4711`"


def test_a_long_error_is_one_bounded_line_without_secrets() -> None:
    error = "password=hunter2 " + "x" * 5000 + "\nsecond"
    told = explain(made(FAILED, told_by(attempt("failed", "failed", error))))
    assert all(len(text) < 600 for text in (told.headline, *(each.text for each in told.lines)))
    assert "hunter2" not in str((told.headline, told.lines))
    assert "second" not in told.headline


def test_a_stores_execution_names_its_store() -> None:
    told = explain(made({"store": "0123"}, {}))
    assert told.headline.startswith("4711 send-paystub for store 0123 (attempt 1 of 5) is")


def test_an_attempt_beyond_the_allowed_ones_is_not_of_them() -> None:
    """A redrive goes on counting."""
    assert explain(made({"attempt": 6}, {})).headline.startswith("4711 send-paystub (attempt 6) is")
