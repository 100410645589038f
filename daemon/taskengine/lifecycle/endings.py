"""What leaving a job's code by an exception means: one outcome for each way out.

Whatever is raised (on purpose, by mistake, by being cancelled, by `sys.exit()`) becomes an
`Outcome`; None where the claim was lost, because then nothing is to be said.
"""

from __future__ import annotations

import asyncio
import traceback

from taskengine.errors import ClaimLost, PayloadError
from taskengine.lifecycle.events import AlreadyProcessed
from taskengine.lifecycle.inflight import Flight
from taskengine.model.outcome import Aborted, Discard, Ending, Outcome, Retry, Snooze
from taskengine.model.surroundings import StopReason
from taskengine.model.text import shown
from taskengine.telemetry.redact import clean_text

_ERROR_CHARS = 2000
_TRACEBACK_CHARS = 16_000
_LOOKED_AT = 50_000  # characters in which secrets are looked for; the rest goes

SUCCESS = Outcome(Ending.SUCCEEDED)

_STOPPED = {
    StopReason.CANCEL: Outcome(Ending.CANCELLED, reason="asked to abort"),
    StopReason.INTERRUPT: Outcome(Ending.INTERRUPTED, reason="shutdown"),
    StopReason.DEADLINE: Outcome(Ending.TIMED_OUT, reason="timed_out", error="timed out"),
}


def ended_by(error: BaseException, flight: Flight) -> Outcome | None:
    """What follows from `error`, raised by the job's code."""
    match error:
        case asyncio.CancelledError():
            return stopped(flight, "the body cancelled itself")
        case Aborted():
            return stopped(flight, "Aborted without being asked to")
        case ClaimLost():
            return None
        case AlreadyProcessed():
            return SUCCESS
        case Snooze():
            return Outcome(Ending.SNOOZED, reason=bounded(error.reason), delay=error.delay)
        case Discard():
            return Outcome(Ending.DISCARDED, reason="discarded", error=bounded(error.reason))
        case Retry():
            return Outcome(Ending.RETRY, reason="retry", error=_of(error), delay=error.after)
        case PayloadError():
            return Outcome(Ending.FAILED, reason="payload", error=_of(error))
        case _:  # sys.exit() in a job must not end the daemon
            trace = _trace(error)
            return Outcome(Ending.FAILED, reason="failed", error=_of(error), traceback=trace)


def stopped(flight: Flight, otherwise: str) -> Outcome | None:
    """What being stopped means: by why the engine asked for it."""
    reason = flight.ctx.stop_reason
    if reason is StopReason.LOST:
        return None
    if reason is StopReason.INTERRUPT and not flight.began:
        return Outcome(Ending.RELEASED, reason="shutdown")
    if reason is StopReason.DEADLINE and flight.withheld:
        return Outcome(Ending.RELEASED, reason="no free thread")
    if reason is None:
        return Outcome(Ending.FAILED, reason="failed", error=otherwise)
    return _STOPPED[reason]


def bounded(text: object) -> str:
    """What ought to be text, as it may be kept: a job may have passed anything, and a driver's
    error may hold a password."""
    return clean_text(shown(text)[:_LOOKED_AT])[:_ERROR_CHARS]


def _of(error: BaseException) -> str:
    """`Type: message`, bounded, whatever its repr does."""
    message = shown(error)
    return bounded(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def _trace(error: BaseException) -> str:
    """The traceback without locals: they hold secrets. Its end is what matters."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:
        text = "(the traceback cannot be shown)"
    return clean_text(shown(text)[-_LOOKED_AT:])[-_TRACEBACK_CHARS:]
