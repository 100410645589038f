"""What follows from being cut short, and from what a job's verify answers."""

from __future__ import annotations

import random

import pytest

from taskengine.errors import InvalidSetting
from taskengine.model.class_job import ClassJob
from taskengine.model.context import JobContext
from taskengine.model.definition import check_setting
from taskengine.model.function_job import job
from taskengine.model.job import BaseJob
from taskengine.model.outcome import Ending, Outcome, Verdict
from taskengine.model.registry import Registry
from taskengine.model.settlement import Settlement, decide

RNG = random.Random(7)


def after(ending: Ending, delay: float | None = None, **claim: object) -> Settlement:
    held = JobContext.for_tests().claim._replace(on_interrupt="verify", **claim)  # type: ignore[arg-type]
    decided = decide(held, Outcome(ending, reason="why", delay=delay), RNG)
    assert isinstance(decided, Settlement)
    return decided


@pytest.mark.parametrize(
    ("ending", "asks"),
    [
        (Ending.ORPHANED, True),
        (Ending.INTERRUPTED, True),
        (Ending.FAILED, False),
        (Ending.TIMED_OUT, False),
        (Ending.RETRY, False),
        (Ending.SNOOZED, False),
        (Ending.RELEASED, None),
        (Ending.UNANSWERED, None),
    ],
)
def test_who_is_asked_next(ending: Ending, asks: bool | None) -> None:
    settlement = after(ending)
    assert (settlement.state, settlement.verify_next) == ("pending", asks)


@pytest.mark.parametrize("setting", ["retry", "fail"])
def test_without_the_setting_nobody_is(setting: str) -> None:
    held = JobContext.for_tests().claim._replace(on_interrupt=setting)
    decided = decide(held, Outcome(Ending.INTERRUPTED), RNG)
    assert isinstance(decided, Settlement)
    assert decided.verify_next is False


def test_a_verdict_is_final() -> None:
    done, unknown = after(Ending.VERIFIED), after(Ending.UNVERIFIED)
    assert (done.move, done.state) == ("verified", "succeeded")
    assert (unknown.move, unknown.state) == ("failed", "failed")


def test_being_cut_short_is_as_bounded_as_without_verify() -> None:
    assert after(Ending.ORPHANED, orphanings=2).state == "failed"
    assert after(Ending.ORPHANED, attempt=3).state == "failed"
    assert after(Ending.INTERRUPTED, interruptions=19).state == "failed"


def test_no_answer_uses_no_attempt_and_waits_longer_each_time() -> None:
    for interruptions, base in enumerate((60, 120, 240)):
        settlement = after(Ending.UNANSWERED, interruptions=interruptions)
        assert (settlement.move, settlement.attempt_step) == ("released", 0)
        assert settlement.interruption_step == 1
        assert base <= settlement.delay <= base * 1.1
    assert after(Ending.UNANSWERED, delay=5.0).delay == 5.0
    assert after(Ending.UNANSWERED, interruptions=19).state == "failed"


# ---- which jobs can be asked ---------------------------------------------------------------------


def test_the_setting_is_one_of_three() -> None:
    check_setting("on_interrupt", "verify")
    with pytest.raises(InvalidSetting, match="one of retry, fail, verify"):
        check_setting("on_interrupt", "ask")


def test_a_class_has_one_where_it_says_so_itself() -> None:
    class Mute(BaseJob):
        name = "mute"

    class Asked(Mute):
        def verify(self) -> Verdict:
            return Verdict.DONE

    class Soon(Mute):
        async def verify(self) -> Verdict:
            return Verdict.DONE

    handles = [ClassJob(each) for each in (Mute, Asked, Soon)]
    assert [each.verify_is_async for each in handles] == [None, False, True]
    assert handles[1].verifier(JobContext.for_tests())() is Verdict.DONE


def test_a_function_has_the_one_that_it_decorates() -> None:
    @job("pay")
    async def pay(ctx: JobContext, employee: int) -> None: ...

    assert pay.verify_is_async is None
    with pytest.raises(NotImplementedError):
        pay.verifier(JobContext.for_tests())

    @pay.verify
    def paid(ctx: JobContext, employee: int) -> Verdict:
        return Verdict.DONE if employee == 7 else Verdict.NOT_DONE

    assert pay.verify_is_async is False
    assert pay.verifier(JobContext.for_tests(payload={"employee": 7}))() is Verdict.DONE
    assert paid(JobContext.for_tests(), 8) is Verdict.NOT_DONE


def test_a_job_that_cannot_be_asked_may_not_say_that_it_can() -> None:
    @job("mute", on_interrupt="verify")
    async def mute(ctx: JobContext) -> None: ...

    registry = Registry()
    with pytest.raises(InvalidSetting, match=r"'mute' has no verify: give it .*@<job>\.verify"):
        registry.add(mute)
    mute.verify(lambda ctx: Verdict.UNKNOWN)
    registry.add(mute)
    assert registry.names == ["mute"]
