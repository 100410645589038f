"""What a job is, and what becomes of one that is dispatched: to be read from top to bottom.

Only names of `from taskengine import …` are used. A daemon runs beside each test that asks for
`engine`.
"""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from taskengine import (
    BaseJob,
    Discard,
    JobContext,
    JobResult,
    Retry,
    Snooze,
    State,
    TaskEngine,
    TaskEngineError,
    job,
)

SOON = 15.0  # seconds that a test waits for an end, at the most


# ---- 1: a job in ten lines ----------------------------------------------------------------------


@job("send-paystub", queue="payroll", timeout=60, max_attempts=5)
async def send_paystub(ctx: JobContext, employee_id: int, period: str) -> str:
    """The parameters are the payload. What is returned is kept with the execution, as JSON."""
    return f"sent {period} to {employee_id}"


async def test_a_job_is_dispatched_and_runs(engine: TaskEngine) -> None:
    sent = await engine.dispatch(send_paystub.call(7, "2026-11"))
    assert sent.created

    done = await engine.wait(sent.execution_id, SOON)
    assert (done.state, done.attempt, done.queue) == (State.SUCCEEDED, 1, "payroll")
    assert json.loads(done.result or "") == "sent 2026-11 to 7"


async def test_a_wrong_payload_is_refused_at_the_door(engine: TaskEngine) -> None:
    with pytest.raises(TaskEngineError, match=r"employee_id"):
        await engine.dispatch("send-paystub", {"employee_id": "seven", "period": "2026-11"})


async def test_without_an_engine_it_is_a_function() -> None:
    """So a unit test of a job needs nothing else."""
    assert await send_paystub(JobContext.for_tests(), 7, "2026-11") == "sent 2026-11 to 7"


# ---- 2: a key makes it once ---------------------------------------------------------------------


async def test_the_same_key_is_the_same_execution(engine: TaskEngine) -> None:
    call, key = send_paystub.call(7, "2026-11"), "paystub:7:2026-11"
    answers = await asyncio.gather(*(engine.dispatch(call, key=key) for _ in range(10)))
    assert [each.created for each in answers].count(True) == 1
    assert len({each.execution_id for each in answers}) == 1

    await engine.wait(answers[0].execution_id, SOON)
    late = await engine.dispatch(call, key=key)
    assert (late.created, late.state) == (False, State.SUCCEEDED)


# ---- 3: later -----------------------------------------------------------------------------------


async def test_a_delay_is_kept(engine: TaskEngine) -> None:
    later = await engine.dispatch(send_paystub.call(7, "2026-12"), delay=timedelta(days=30))
    now = await engine.dispatch(send_paystub.call(7, "2026-11"))
    await engine.wait(now.execution_id, SOON)

    waiting = await engine.get(later.execution_id)
    assert waiting.state is State.PENDING
    assert waiting.run_at - waiting.created_at == timedelta(days=30)


# ---- 4: what an attempt may say -----------------------------------------------------------------


@job("knock", max_attempts=3, notify_on_failure=False)
async def knock(ctx: JobContext, answer: str) -> int:
    """Nobody opens at first."""
    if ctx.attempt == 1 and not ctx.cursor:
        match answer:
            case "again":
                raise Retry("nobody opens", after=0)  # uses an attempt
            case "not yet":
                await ctx.save_cursor("snoozed")
                raise Snooze(seconds=0, reason="too early")  # uses none
            case "moved away":
                raise Discard("nobody lives here")  # final, whatever attempts are left
    return ctx.attempt


@pytest.mark.parametrize(
    ("answer", "state", "attempt"),
    [
        ("yes", State.SUCCEEDED, 1),
        ("again", State.SUCCEEDED, 2),
        ("not yet", State.SUCCEEDED, 1),
        ("moved away", State.FAILED, 1),
    ],
)
async def test_retry_snooze_and_discard(
    engine: TaskEngine, answer: str, state: State, attempt: int
) -> None:
    sent = await engine.dispatch(knock.call(answer))
    done = await engine.wait(sent.execution_id, SOON)
    assert (done.state, done.attempt) == (state, attempt)


# ---- 5: once for each store ---------------------------------------------------------------------


class CountShelves(BaseJob):
    """A job as a class: its settings are attributes, `handle` is the body."""

    name = "count-shelves"
    scope = "per_store"
    queue = "low"

    async def handle(self) -> JobResult:
        assert self.store is not None
        return JobResult.success(store=self.type_num, name=self.store.name)


async def test_a_job_for_each_store(engine: TaskEngine) -> None:
    sent = await engine.dispatch_stores(CountShelves.call(), key="shelves:2026-11")
    assert [each.key for each in sent] == [f"shelves:2026-11:{n}" for n in ("0101", "0102", "0103")]

    done = [await engine.wait(each.execution_id, SOON) for each in sent]
    assert [json.loads(each.result or "")["store"] for each in done] == ["0101", "0102", "0103"]

    with pytest.raises(TaskEngineError, match="per store"):
        await engine.dispatch(CountShelves.call())


# ---- 6: long work: cursor, progress, log --------------------------------------------------------


class Report(BaseJob):
    """A plain `def` runs in a thread, with the same names."""

    name = "report"
    retry_backoff = 0

    def handle(self) -> JobResult:
        first = self.cursor or 0
        for page in range(first, 4):
            if page == 2 and self.attempt == 1:
                raise ConnectionError("the printer is away")
            self.info("printed", page=page)
            self.progress(100 * (page + 1) / 4, f"page {page + 1} of 4")
            self.save_cursor(page + 1)
        return JobResult.success(began_at=first)


async def test_a_retry_goes_on_where_the_attempt_before_stopped(engine: TaskEngine) -> None:
    sent = await engine.dispatch(Report.call())
    done = await engine.wait(sent.execution_id, SOON)
    assert (done.state, done.attempt) == (State.SUCCEEDED, 2)
    assert json.loads(done.result or "") == {"began_at": 2}
    assert (done.cursor, done.progress, done.progress_message) == ("4", 100, "page 4 of 4")


# ---- 7: an operator's moves ---------------------------------------------------------------------


@job("wait-for-it", notify_on_failure=False)
async def wait_for_it(ctx: JobContext) -> str:
    """Stops at once when asked to: `checkpoint` raises then."""
    while True:
        ctx.checkpoint()
        await asyncio.sleep(0.01)


async def test_cancel_while_it_waits_and_while_it_runs(engine: TaskEngine) -> None:
    waiting = await engine.dispatch(wait_for_it.call(), delay=3600)
    assert await engine.cancel(waiting.execution_id) == "cancelled"

    running = await engine.dispatch(wait_for_it.call())
    while (await engine.get(running.execution_id)).state is not State.RUNNING:
        await asyncio.sleep(0.01)
    assert await engine.cancel(running.execution_id) == "requested"
    assert (await engine.wait(running.execution_id, SOON)).state is State.CANCELLED
    assert await engine.cancel(running.execution_id) == "already cancelled"


@job("pay", max_attempts=1, notify_on_failure=False)
async def pay(ctx: JobContext) -> str:
    """Fails once; `idempotency_key` is what to hand to whoever pays: it stays the same."""
    if not ctx.is_retry:
        raise TimeoutError("the bank is closed")
    return ctx.idempotency_key


async def test_what_failed_is_redriven(engine: TaskEngine) -> None:
    sent = await engine.dispatch(pay.call(), key="pay:1")
    failed = await engine.wait(sent.execution_id, SOON)
    assert (failed.state, failed.last_error) == (State.FAILED, "TimeoutError: the bank is closed")

    again = await engine.redrive(sent.execution_id)
    assert again.execution_id == sent.execution_id
    done = await engine.wait(sent.execution_id, SOON)
    assert (done.state, json.loads(done.result or "")) == (State.SUCCEEDED, "pay:1")

    with pytest.raises(TaskEngineError, match="succeeded"):
        await engine.redrive(sent.execution_id)
