"""verify: was it done? The job's own answer, before a body that was cut short runs once more.

Guarantees: the body runs only after NOT_DONE, and never once the flight was stopped or given up;
UNKNOWN, and a job that cannot be asked, is left to a person; a `verify` that raises, times out or
answers anything else has not answered: it is asked again later, and no attempt is used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from taskengine.lifecycle.endings import bounded, ended_by
from taskengine.lifecycle.inflight import Flight
from taskengine.model.job import JobHandle
from taskengine.model.outcome import Ending, Outcome, Verdict

_DONE = Outcome(Ending.VERIFIED, reason="verified")
UNANSWERED = Outcome(Ending.UNANSWERED, reason="unanswered", error="verify: timed out")


async def ask(
    job: JobHandle, flight: Flight, in_thread: Callable[[Flight, Callable[[], Any]], Awaitable[Any]]
) -> Outcome | Literal[Verdict.NOT_DONE] | None:
    """NOT_DONE: the body is to run. None: the claim was lost."""
    if job.verify_is_async is None:
        return _unverified(f"job {job.name} has no verify to ask")
    flight.asking, flight.threaded = True, not job.verify_is_async
    try:
        question = job.verifier(flight.ctx)
        verdict = await question() if job.verify_is_async else await in_thread(flight, question)
        if verdict is Verdict.NOT_DONE:
            flight.ctx.check_abort()
            _ready_for_the_body(job, flight)
            return Verdict.NOT_DONE
    except BaseException as error:
        return _instead(ended_by(error, flight))
    return _answered(verdict)


def _ready_for_the_body(job: JobHandle, flight: Flight) -> None:
    """As if nothing had run yet: a verify in a thread has left its traces."""
    flight.asking = flight.began = flight.ctx.in_thread = False
    flight.threaded = not job.is_async


def _answered(verdict: object) -> Outcome:
    if verdict is Verdict.DONE:
        return _DONE
    if verdict is Verdict.UNKNOWN:
        return _unverified("verify cannot know whether it was done")
    return UNANSWERED._replace(error=bounded(f"verify answered {verdict!r}, which is no Verdict"))


def _unverified(why: str) -> Outcome:
    return Outcome(Ending.UNVERIFIED, reason="unverified", error=bounded(why))


def _instead(outcome: Outcome | None) -> Outcome | None:
    """What a body's way out means where it was not the body."""
    if outcome is None:
        return None
    match outcome.ending:
        case Ending.SUCCEEDED:
            return _DONE
        case Ending.FAILED | Ending.TIMED_OUT | Ending.RETRY:
            error = bounded(f"verify: {outcome.error}")
            return outcome._replace(ending=Ending.UNANSWERED, reason="unanswered", error=error)
        case Ending.SNOOZED | Ending.INTERRUPTED:
            return outcome._replace(ending=Ending.RELEASED)
        case _:
            return outcome
