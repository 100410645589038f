"""`on_interrupt = "verify"`: whoever was cut short is asked whether it was done, before it runs again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from taskengine.errors import ClaimLost
from taskengine.lifecycle.operate import cancel, redrive
from taskengine.model.class_job import ClassJob
from taskengine.model.context import JobContext
from taskengine.model.execution import Claim
from taskengine.model.function_job import FunctionJob, job
from taskengine.model.job import BaseJob
from taskengine.model.outcome import Discard, Outcome, Retry, Snooze, Verdict
from taskengine.model.surroundings import StopReason
from tests.support.make import FAILED, INTERRUPTED, ORPHANED, RELEASED, Hands, Told
from tests.support.until import until


class Asked:
    """A job that can be asked: what it answers, how often it was, and how often its body began."""

    def __init__(self, answer: Any = Verdict.NOT_DONE, *, plain: bool = False) -> None:
        self.answer = answer
        self.questions = 0
        self.bodies = 0
        self.job = self._job(plain)

    def _job(self, plain: bool) -> FunctionJob[..., Any]:
        @job("pay", on_interrupt="verify", max_attempts=5)
        async def pay(ctx: JobContext) -> None:
            assert not ctx.in_thread
            self.bodies += 1

        def now(ctx: JobContext) -> Verdict:
            assert ctx.in_thread
            return self._tell()

        @pay.verify
        async def soon(ctx: JobContext) -> Verdict:
            return self._tell()

        if plain:
            pay.verify(now)
        return pay

    def _tell(self) -> Verdict:
        self.questions += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


async def cut_short(hands: Hands, asked: Asked, how: Outcome = ORPHANED) -> Claim:
    """The claim after the one that was cut short."""
    await hands.know(asked.job)
    claim = await hands.running("pay")
    await hands.settle(claim, how)
    return await hands.take_again(claim.id)


async def fly(hands: Hands, claim: Claim) -> dict[str, Any]:
    """The row once that claim has ended and is settled."""
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: flight.ended)
    return dict(await hands.row(claim.id))


# ---- when it is asked ----------------------------------------------------------------------------


async def test_a_first_run_is_not_asked(hands: Hands) -> None:
    asked = Asked()
    await hands.know(asked.job)
    row = await fly(hands, await hands.running("pay"))
    assert (row["state"], asked.questions, asked.bodies) == ("succeeded", 0, 1)


@pytest.mark.parametrize("how", [ORPHANED, INTERRUPTED])
async def test_who_was_cut_short_is(hands: Hands, how: Outcome) -> None:
    claim = await cut_short(hands, Asked(), how)
    assert claim.asks


@pytest.mark.parametrize(("setting", "asks"), [("retry", False), ("fail", True)])
async def test_the_setting_as_it_is_at_the_claim_counts(
    hands: Hands, setting: str, asks: bool
) -> None:
    claim = await cut_short(hands, Asked())
    await hands.settle(claim, RELEASED)
    await hands.sql("update task_job_definitions set on_interrupt = $1", setting)
    assert (await hands.take_again(claim.id)).asks is asks


async def test_a_crash_before_the_answer_asks_again(hands: Hands) -> None:
    claim = await cut_short(hands, Asked())
    await hands.settle(claim, ORPHANED)
    await hands.make_due(claim.id)
    assert (await hands.take_again(claim.id)).asks


async def test_after_an_attempt_that_failed_by_itself_nobody_is_asked(hands: Hands) -> None:
    claim = await cut_short(hands, Asked())
    async with hands.settling():
        hands.crew.settler.put(hands.flight(claim), FAILED)
    await hands.make_due(claim.id)
    assert not (await hands.take_again(claim.id)).asks


async def test_released_before_it_was_asked_it_is_asked_by_the_next(hands: Hands) -> None:
    claim = await cut_short(hands, Asked())
    await hands.settle(claim, RELEASED)
    assert (await hands.take_again(claim.id)).asks


async def test_what_an_operator_redrives_runs(hands: Hands) -> None:
    asked = Asked(Verdict.UNKNOWN)
    claim = await cut_short(hands, asked)
    await fly(hands, claim)
    await redrive(hands.parts, claim.id, "ann", from_start=False)
    row = await fly(hands, await hands.take_again(claim.id))
    assert (row["state"], asked.questions, asked.bodies) == ("succeeded", 1, 1)


# ---- what it answers -----------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True])
async def test_done_settles_without_running(hands: Hands, plain: bool, told: Told) -> None:
    asked = Asked(Verdict.DONE, plain=plain)
    claim = await cut_short(hands, asked)
    row = await fly(hands, claim)
    assert (row["state"], row["result"], row["attempt"], asked.bodies) == ("succeeded", None, 2, 0)
    assert await hands.history(claim.id) == ["orphaned", "verified"]
    assert len(told.of("execution.verified")) == 1


@pytest.mark.parametrize("plain", [False, True])
async def test_not_done_runs_the_body(hands: Hands, plain: bool) -> None:
    asked = Asked(Verdict.NOT_DONE, plain=plain)
    row = await fly(hands, await cut_short(hands, asked))
    assert (row["state"], asked.questions, asked.bodies) == ("succeeded", 1, 1)


async def test_unknown_is_quarantined_for_a_person(hands: Hands, told: Told) -> None:
    asked = Asked(Verdict.UNKNOWN)
    claim = await cut_short(hands, asked)
    row = await fly(hands, claim)
    assert (row["state"], asked.bodies) == ("failed", 0)
    assert row["last_error"] == "verify cannot know whether it was done"
    assert await hands.history(claim.id) == ["orphaned", "failed"]
    assert [each["reason"] for each in told.of("execution.quarantined")] == ["unverified"]
    assert await hands.sql("select from task_executions where subject = 'job:pay'") != []


async def test_done_counts_although_a_cancel_was_asked_for(hands: Hands) -> None:
    asked = Asked(Verdict.DONE)
    claim = await cut_short(hands, asked)
    await cancel(hands.parts, [claim.id], "ann", "")
    assert (await fly(hands, claim))["state"] == "succeeded"


async def test_unknown_where_a_cancel_was_asked_for_is_cancelled(hands: Hands) -> None:
    claim = await cut_short(hands, Asked(Verdict.UNKNOWN))
    await cancel(hands.parts, [claim.id], "ann", "")
    assert (await fly(hands, claim))["state"] == "cancelled"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (OSError("bank is away"), "verify: OSError: bank is away"),
        (SystemExit(3), "verify: SystemExit: 3"),
        (True, "verify answered True, which is no Verdict"),
        ("done", "verify answered 'done', which is no Verdict"),
    ],
)
async def test_no_answer_is_asked_again_later_and_uses_no_attempt(
    hands: Hands, told: Told, answer: Any, error: str
) -> None:
    asked = Asked(answer)
    claim = await cut_short(hands, asked)
    row = await fly(hands, claim)
    assert (row["state"], row["attempt"], row["verify_next"]) == ("pending", 2, True)
    assert (row["interruptions"], row["last_error"], asked.bodies) == (1, error, 0)
    assert row["run_at"] > row["claimed_at"]
    assert len(told.of("execution.unanswered")) == 1


async def test_no_answer_is_bounded_as_interruptions_are(hands: Hands, told: Told) -> None:
    claim = await cut_short(hands, Asked(OSError()))
    row = await fly(hands, claim._replace(interruptions=19))
    assert (row["state"], row["attempt"]) == ("failed", 2)
    assert [each["reason"] for each in told.of("execution.quarantined")] == ["unanswered"]


@pytest.mark.parametrize(
    ("raised", "state", "move"),
    [
        (Snooze(minutes=5), "pending", "released"),
        (Retry(after=30), "pending", "released"),
        (Discard("no such employee"), "failed", "discarded"),
    ],
)
async def test_what_a_job_may_raise_on_purpose_it_may_raise_here(
    hands: Hands, raised: BaseException, state: str, move: str
) -> None:
    claim = await cut_short(hands, Asked(raised))
    row = await fly(hands, claim)
    assert (row["state"], row["verify_next"], row["attempt"]) == (state, True, 2)
    assert (await hands.history(claim.id))[-1] == move


async def test_a_lost_claim_says_nothing(hands: Hands) -> None:
    claim = await cut_short(hands, Asked(ClaimLost("gone")))
    assert (await fly(hands, claim))["state"] == "running"


async def test_a_job_that_can_no_longer_be_asked_is_left_to_a_person(hands: Hands) -> None:
    asked = Asked()
    claim = await cut_short(hands, asked)
    asked.job._verify = None
    row = await fly(hands, claim)
    assert (row["state"], row["last_error"]) == ("failed", "job pay has no verify to ask")


# ---- while it is asked ---------------------------------------------------------------------------


class Slow(BaseJob):
    """Its verify takes until it is let go, whoever cancels it."""

    name = "pay"
    on_interrupt = "verify"
    timeout = 1
    max_attempts = 5
    begun: asyncio.Event
    let_go: asyncio.Event
    bodies = 0

    async def handle(self) -> None:
        type(self).bodies += 1

    async def verify(self) -> Verdict:
        self.begun.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        return Verdict.NOT_DONE


@pytest.fixture
async def slow(hands: Hands) -> type[Slow]:
    Slow.begun, Slow.let_go, Slow.bodies = asyncio.Event(), asyncio.Event(), 0
    await hands.know(ClassJob(Slow))
    return Slow


async def asking(hands: Hands) -> Claim:
    claim = await hands.running("pay")
    await hands.settle(claim, INTERRUPTED)
    return await hands.take_again(claim.id)


async def test_the_deadline_of_the_claim_is_its_deadline(hands: Hands, slow: type[Slow]) -> None:
    """It swallows its cancellation: given up, and its late answer begins no body."""
    claim = await asking(hands)
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: flight.ended)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["verify_next"]) == ("pending", 1, True)
    assert row["last_error"] == "verify: timed out"
    slow.let_go.set()
    await until(lambda: not hands.crew.inflight.zombies)
    assert slow.bodies == 0


async def test_a_shutdown_releases_it(hands: Hands, slow: type[Slow]) -> None:
    claim = await asking(hands)
    async with hands.settling():
        flight = hands.fly(claim)
        await slow.begun.wait()
        flight.stop(StopReason.INTERRUPT)
        slow.let_go.set()
        await until(lambda: flight.ended)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["interruptions"]) == ("pending", 1, 1)
    assert (row["verify_next"], slow.bodies) == (True, 0)
    assert await hands.history(claim.id) == ["interrupted", "released"]


async def test_a_shutdown_leaves_a_thread_that_asks_to_itself(hands: Hands) -> None:
    begun, let_go = threading.Event(), threading.Event()

    class Plain(BaseJob):
        name = "pay"
        on_interrupt = "verify"

        async def handle(self) -> None:
            raise AssertionError

        def verify(self) -> Verdict:
            begun.set()
            let_go.wait()
            return Verdict.NOT_DONE

    await hands.know(ClassJob(Plain))
    claim = await asking(hands)
    async with hands.settling():
        flight = hands.fly(claim)
        await until(begun.is_set)
        hands.crew.pilot.interrupt(flight)
        await until(lambda: flight.ended)
    assert await hands.history(claim.id) == ["interrupted", "released"]
    let_go.set()
    await until(lambda: hands.crew.threads.lost == 0)
