"""run: the user's code, and nothing else. No store is touched here.

Whatever the body does (returns, raises, is cancelled, calls `sys.exit()`) becomes an `Outcome`;
None where the claim was lost, because then nothing is to be said. A job that was cut short and can
say whether its work was done is asked first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from taskengine.lifecycle.endings import SUCCESS, bounded, ended_by
from taskengine.lifecycle.inflight import Flight
from taskengine.lifecycle.verify import ask
from taskengine.model.job import JobHandle, JobResult
from taskengine.model.outcome import Ending, Outcome, Verdict
from taskengine.model.payload import encode_result
from taskengine.model.surroundings import StopReason
from taskengine.telemetry import origin

InThread = Callable[[Flight, Callable[[], Any]], Awaitable[Any]]


async def run(job: JobHandle, flight: Flight, in_thread: InThread) -> Outcome | None:
    """Run one claim's body to its end. What is logged meanwhile says whose it is."""
    origin.begin(flight.claim)
    try:
        if flight.claim.abort_requested:
            flight.stop(StopReason.CANCEL)
            flight.ctx.check_abort()
        if flight.claim.asks:
            answer = await ask(job, flight, in_thread)
            if answer is not Verdict.NOT_DONE:
                return answer
        value = await _body(job, flight, in_thread)
    except BaseException as error:
        return ended_by(error, flight)
    finally:
        origin.end()
    return _returned(value, flight.claim.max_result_bytes)


async def _body(job: JobHandle, flight: Flight, in_thread: InThread) -> Any:
    body = job.body(flight.ctx)
    if not job.is_async:
        return await in_thread(flight, body)
    flight.began = True
    return await body()


def _returned(value: Any, limit: int) -> Outcome:
    try:
        return _success_or_failure(value, limit)
    except BaseException as error:  # the work is done, whatever its value does when looked at
        problem = f"result: {type(error).__name__} while it was looked at"
        return Outcome(Ending.SUCCEEDED, result_error=problem)


def _success_or_failure(value: Any, limit: int) -> Outcome:
    if value is None:
        return SUCCESS
    if issubclass(type(value), JobResult):  # a proxy may not even tell its class
        if not value.ok:
            return Outcome(Ending.FAILED, reason="failed", error=bounded(value.reason))
        if not value.data:
            return SUCCESS
        value = dict(value.data)
    result, result_error = encode_result(value, limit)
    return Outcome(Ending.SUCCEEDED, result=result, result_error=result_error)
