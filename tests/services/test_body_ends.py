"""Step 5 of "The way of one execution": how a body may end, and what is stored of it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from taskengine.lifecycle import pilot
from taskengine.model.job import BaseJob, JobResult
from taskengine.model.outcome import Aborted, Discard, Retry, Snooze
from tests.support.make import Hands, a_job
from tests.support.until import until


async def test_an_exception_is_a_failed_attempt_with_its_traceback(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise ValueError("no such number")

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 2)
    (line,) = await hands.sql("select error, traceback from task_attempts")
    assert line["error"] == "ValueError: no such number"
    assert "raise ValueError" in line["traceback"]


@pytest.mark.parametrize("in_thread", [False, True])
async def test_sys_exit_in_a_job_is_a_failed_attempt_and_ends_nothing(
    hands: Hands, in_thread: bool
) -> None:
    async def coroutine(ctx: Any) -> None:
        sys.exit(3)

    def thread(ctx: Any) -> None:
        sys.exit(3)

    await hands.know(a_job("work", thread if in_thread else coroutine))
    row = await hands.run()
    assert (row["state"], row["last_error"]) == ("pending", "SystemExit: 3")


async def test_retry_sets_the_delay_of_the_next_attempt(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise Retry("the bank is closed", after=30)

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 2)
    assert row["last_error"] == "Retry: the bank is closed"
    assert (row["run_at"] - row["claimed_at"]).total_seconds() >= 30


async def test_retry_without_an_attempt_left_fails(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise Retry(after=30)

    await hands.know(a_job("work", body, max_attempts=1))
    assert (await hands.run())["state"] == "failed"


async def test_snooze_runs_again_later_with_no_attempt_used(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise Snooze(minutes=5, reason="not yet")

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 1)
    (line,) = await hands.sql("select move, reason from task_attempts")
    assert tuple(line.values()) == ("snoozed", "not yet")


async def test_discard_fails_for_good(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise Discard("no such employee")

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["last_error"]) == ("failed", "no such employee")


async def test_aborted_without_being_asked_is_a_failed_attempt(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise Aborted

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 2)


async def test_aborted_after_an_operators_cancel_is_cancelled(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        while True:
            ctx.checkpoint()
            await asyncio.sleep(0)

    await hands.know(a_job("work", body))
    claim = await hands.running()
    await hands.change(claim.id, abort_requested_at="sql:now()")
    async with hands.settling():
        flight = hands.fly(claim)
        await hands.beat()  # the flag comes with the beat
        await until(lambda: flight.ended)
    assert await hands.state(claim.id) == "cancelled"


async def test_an_abort_asked_for_before_the_body_began_keeps_it_from_beginning(
    hands: Hands,
) -> None:
    async def body(ctx: Any) -> None:
        raise AssertionError("it began")

    await hands.know(a_job("work", body))
    sent = await hands.dispatch()
    await hands.change(sent.execution_id, abort_requested_at="sql:now()")
    claim = await hands.take(sent.execution_id)
    assert claim.abort_requested
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: flight.ended)
    assert await hands.state(claim.id) == "cancelled"


async def test_cancel_of_a_body_that_does_not_look_cancels_its_coroutine_after_a_while(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(ctx: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(pilot, "_ABORT_GRACE", 0.01)
    await hands.know(a_job("work", body))
    claim = await hands.running()
    await hands.change(claim.id, abort_requested_at="sql:now()")
    async with hands.settling():
        flight = hands.fly(claim)
        await hands.beat()
        await until(lambda: flight.ended)
    assert await hands.state(claim.id) == "cancelled"


async def test_failure_said_by_a_job_result_is_a_failed_attempt(hands: Hands) -> None:
    async def body(ctx: Any) -> JobResult:
        return JobResult.failure("the file was empty", rows=0)

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 2)
    assert row["last_error"] == "the file was empty"


@dataclass
class Paid:
    """A result of the user's own type."""

    amount: Decimal
    at: datetime


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        (7, "7"),
        ("text", '"text"'),
        ({"a": [1, 2.5, True, None]}, '{"a": [1, 2.5, true, null]}'),
        (JobResult.success(), None),
        (JobResult.success(rows=3), '{"rows": 3}'),
        (
            Paid(Decimal("12.340"), datetime(2026, 1, 2, tzinfo=UTC)),
            '{"at": "2026-01-02T00:00:00+00:00", "amount": "12.340"}',
        ),
    ],
    ids=["none", "number", "text", "object", "success", "success with data", "dataclass"],
)
async def test_result_is_stored_as_json(hands: Hands, value: Any, stored: str | None) -> None:
    async def body(ctx: Any) -> Any:
        return value

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["result"], row["result_error"]) == ("succeeded", stored, None)


@pytest.mark.parametrize(
    "value", ["\0", float("nan"), {1, 2}.__iter__(), "x" * 200], ids=["nul", "nan", "it", "large"]
)
async def test_result_that_cannot_be_stored_succeeds_without_it(hands: Hands, value: Any) -> None:
    async def body(ctx: Any) -> Any:
        return value

    await hands.know(a_job("work", body, max_result_bytes=100))
    row = await hands.run()
    assert (row["state"], row["result"]) == ("succeeded", None)
    assert row["result_error"]


async def test_a_payload_that_no_longer_fits_the_job_is_a_failed_attempt_that_says_so(
    hands: Hands,
) -> None:
    async def body(ctx: Any, employee_id: int) -> None: ...

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert row["state"] == "pending"
    assert "employee_id" in row["last_error"]


async def test_a_class_is_a_job_as_well(hands: Hands) -> None:
    class Totals(BaseJob):
        name = "totals"
        timeout = 60

        async def handle(self) -> dict[str, Any]:
            self.progress(50)
            return {"attempt": self.attempt, "payload": self.payload("month", "none")}

    hands.parts.registry.add(Totals)
    await hands.know(hands.parts.registry["totals"])
    row = await hands.run("totals")
    assert (row["result"], row["progress"]) == ('{"attempt": 1, "payload": "none"}', 50)
