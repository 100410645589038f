"""run: the user's code, and nothing else. No store is touched here.

Whatever the body does (returns, raises, is cancelled, calls `sys.exit()`) becomes an `Outcome`;
None where the claim was lost, because then nothing is to be said.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from taskengine.errors import ClaimLost, PayloadError
from taskengine.lifecycle.events import AlreadyProcessed
from taskengine.lifecycle.inflight import Flight
from taskengine.model.context import StopReason
from taskengine.model.job import JobHandle, JobResult
from taskengine.model.outcome import Aborted, Discard, Ending, Outcome, Retry, Snooze
from taskengine.model.payload import encode_result
from taskengine.model.text import shown

InThread = Callable[[Flight, Callable[[], Any]], Awaitable[Any]]

_ERROR_CHARS = 2000
_TRACEBACK_CHARS = 16_000

_STOPPED = {
    StopReason.CANCEL: Outcome(Ending.CANCELLED, reason="asked to abort"),
    StopReason.INTERRUPT: Outcome(Ending.INTERRUPTED, reason="shutdown"),
    StopReason.DEADLINE: Outcome(Ending.TIMED_OUT, reason="timed_out", error="timed out"),
}


async def run(job: JobHandle, flight: Flight, in_thread: InThread) -> Outcome | None:
    """Run one claim's body to its end."""
    try:
        value = await _body(job, flight, in_thread)
    except asyncio.CancelledError:
        return _stopped(flight, "the body cancelled itself")
    except Aborted:
        return _stopped(flight, "Aborted without being asked to")
    except ClaimLost:
        return None
    except AlreadyProcessed:
        return _SUCCESS
    except Snooze as asked:
        return Outcome(Ending.SNOOZED, reason=_bounded(asked.reason), delay=asked.delay)
    except Discard as asked:
        return Outcome(Ending.DISCARDED, reason="discarded", error=_bounded(asked.reason))
    except Retry as asked:
        return Outcome(Ending.RETRY, reason="retry", error=_of(asked), delay=asked.after)
    except PayloadError as error:
        return Outcome(Ending.FAILED, reason="payload", error=_of(error))
    except BaseException as error:  # sys.exit() in a job must not end the daemon
        return Outcome(Ending.FAILED, reason="failed", error=_of(error), traceback=_trace(error))
    return _returned(value, flight.claim.max_result_bytes)


async def _body(job: JobHandle, flight: Flight, in_thread: InThread) -> Any:
    if flight.ctx.claim.abort_requested:
        flight.stop(StopReason.CANCEL)
        raise Aborted
    body = job.body(flight.ctx)
    if not job.is_async:
        return await in_thread(flight, body)
    flight.began = True
    return await body()


def _stopped(flight: Flight, otherwise: str) -> Outcome | None:
    """What being stopped means: by why the engine asked for it."""
    reason = flight.ctx.stop_reason
    if reason is StopReason.LOST:
        return None
    if reason is StopReason.INTERRUPT and not flight.began:
        return Outcome(Ending.RELEASED, reason="shutdown")
    if reason is None:
        return Outcome(Ending.FAILED, reason="failed", error=otherwise)
    return _STOPPED[reason]


def _returned(value: Any, limit: int) -> Outcome:
    try:
        return _success_or_failure(value, limit)
    except BaseException as error:  # the work is done, whatever its value does when looked at
        problem = f"result: {type(error).__name__} while it was looked at"
        return Outcome(Ending.SUCCEEDED, result_error=problem)


def _success_or_failure(value: Any, limit: int) -> Outcome:
    if value is None:
        return _SUCCESS
    if issubclass(type(value), JobResult):  # a proxy may not even tell its class
        if not value.ok:
            return Outcome(Ending.FAILED, reason="failed", error=_bounded(value.reason))
        if not value.data:
            return _SUCCESS
        value = dict(value.data)
    result, result_error = encode_result(value, limit)
    return Outcome(Ending.SUCCEEDED, result=result, result_error=result_error)


_SUCCESS = Outcome(Ending.SUCCEEDED)


def _of(error: BaseException) -> str:
    """`Type: message`, bounded, whatever its repr does."""
    message = shown(error)
    return _bounded(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def _bounded(text: object) -> str:
    """What ought to be text: a job may have passed anything."""
    return shown(text)[:_ERROR_CHARS]


def _trace(error: BaseException) -> str:
    """The traceback without locals: they hold secrets. Its end is what matters."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:
        text = "(the traceback cannot be shown)"
    return shown(text)[-_TRACEBACK_CHARS:]
