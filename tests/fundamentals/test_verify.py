"""A job that must not run twice, and that a deploy or a crash may cut short: was it done?

With `on_interrupt = "verify"` the engine asks the job itself before it runs its body again.
"""

from __future__ import annotations

import asyncio

import pytest

from taskengine import BaseJob, JobContext, State, TaskEngine, Verdict, job
from taskengine.jobs.notify_failure import NotifyFailure
from taskengine.lifecycle.definitions import sync
from taskengine.lifecycle.parts import Parts
from tests.fundamentals.conftest import running_daemon

SOON = 15.0  # seconds that a test waits for an end, at the most


class Bank:
    """The world outside: it has taken a payment, or it has not; `sure`: and it can tell."""

    def __init__(self) -> None:
        self.paid = 0
        self.sure = True
        self.begun = asyncio.Event()


bank = Bank()


# ---- 1: a job with a verify ---------------------------------------------------------------------


@job("pay-out", on_interrupt="verify")
async def pay_out(ctx: JobContext, employee_id: int) -> None:
    """Pays, and is then cut short before it can say so."""
    bank.paid += 1
    bank.begun.set()
    while True:
        ctx.checkpoint()
        await asyncio.sleep(0.02)


@pay_out.verify
async def was_paid(ctx: JobContext, employee_id: int) -> Verdict:
    """The same parameters; DONE, NOT_DONE, or UNKNOWN where nobody can tell."""
    if not bank.sure:
        return Verdict.UNKNOWN
    return Verdict.DONE if bank.paid else Verdict.NOT_DONE


async def test_it_is_a_function_like_any_other() -> None:
    bank.__init__()  # type: ignore[misc]
    assert await was_paid(JobContext.for_tests(), 7) is Verdict.NOT_DONE


class PayAll(BaseJob):
    """In a class it is a method; a plain `def` runs in a thread, as with `handle`."""

    name = "pay-all"
    on_interrupt = "verify"

    async def handle(self) -> None:
        """Nothing to pay here."""

    def verify(self) -> Verdict:
        return Verdict.NOT_DONE


# ---- 2: cut short by a deploy -------------------------------------------------------------------


@pytest.fixture
async def cut_short(parts: Parts) -> tuple[TaskEngine, int]:
    """An execution that had paid when its daemon was stopped; the daemon after that one runs."""
    bank.__init__()  # type: ignore[misc]
    parts.registry.add(NotifyFailure(parts))
    await sync(parts)
    engine = TaskEngine.of(parts)
    async with running_daemon(parts):
        sent = await engine.dispatch(pay_out.call(employee_id=7))
        await asyncio.wait_for(bank.begun.wait(), SOON)
    found = await engine.get(sent.execution_id)
    assert found is not None
    assert (found.state, found.interruptions) == (State.PENDING, 1)
    return engine, sent.execution_id


async def test_what_was_done_is_not_done_again(
    cut_short: tuple[TaskEngine, int], parts: Parts
) -> None:
    engine, execution_id = cut_short
    async with running_daemon(parts):
        done = await engine.wait(execution_id, SOON)
    assert (done.state, done.attempt, done.result, bank.paid) == (State.SUCCEEDED, 1, None, 1)


async def test_what_nobody_can_know_waits_for_a_person(
    cut_short: tuple[TaskEngine, int], parts: Parts
) -> None:
    engine, execution_id = cut_short
    bank.sure = False
    async with running_daemon(parts):
        done = await engine.wait(execution_id, SOON)
    assert (done.state, bank.paid) == (State.FAILED, 1)
    assert done.last_error == "verify cannot know whether it was done"
