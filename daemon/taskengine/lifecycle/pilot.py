"""Flies one claim: starts its body, holds it to its deadline, has its outcome settled.

Guarantees: one outcome a flight, the first one; the slot is free when the body has ended or is given
up; a coroutine that swallows cancellation is settled one second after its deadline all the same and
goes on as a counted zombie, whose late result changes nothing; a thread that goes on keeps its slot;
no body begins under a claim that was asked for more than a lease ago: the process has stood still,
and somebody else may have it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from taskengine.lifecycle.deadlines import Deadlines
from taskengine.lifecycle.inflight import Flight, Inflight
from taskengine.lifecycle.run import run
from taskengine.lifecycle.settle import Settler
from taskengine.lifecycle.threads import Threads
from taskengine.lifecycle.verify import UNANSWERED
from taskengine.model.job import JobHandle
from taskengine.model.outcome import Ending, Outcome
from taskengine.model.surroundings import StopReason
from taskengine.runtime.clock import Clock
from taskengine.telemetry.events import emit, heard
from taskengine.telemetry.origin import about

_GRACE = 1.0  # seconds from the deadline to the settlement, whatever the body does
_ABORT_GRACE = 5.0  # seconds from an operator's cancel to the coroutine's cancellation

_LATE = Outcome(Ending.RELEASED, reason="begun too late")
_TIMED_OUT = Outcome(Ending.TIMED_OUT, reason="timed_out", error="timed out")


class Pilot:
    """Everything between a claim and its outcome, for all flights of a worker."""

    def __init__(
        self,
        clock: Clock,
        inflight: Inflight,
        settler: Settler,
        threads: Threads,
        freed: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._inflight = inflight
        self._settler = settler
        self._threads = threads
        self._freed = freed
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._ring)

    def start(self, job: JobHandle, flight: Flight) -> None:
        """Begin the body; never waits."""
        if heard("execution.started"):
            emit("execution.started", waited=flight.claim.waited, **about(flight.claim))
        self._inflight.add(flight)
        flight.threaded = not job.is_async
        self._deadlines.add(flight, flight.claim.timeout)
        flight.task = self._loop.create_task(self._fly(job, flight))

    def abort(self, flight: Flight) -> None:
        """An operator's cancel: asked first, then cancelled."""
        if not flight.ended and flight.ctx.stop_reason is None:
            flight.stop(StopReason.CANCEL)
            self._loop.call_later(_ABORT_GRACE, self._cancel, flight, StopReason.CANCEL)

    def lose(self, flight: Flight) -> None:
        """The claim is no longer ours: abort the body, settle nothing."""
        if flight.lost:
            return
        flight.lost = True
        emit("execution.claim_lost", **about(flight.claim))
        flight.cancel(StopReason.LOST)
        flight.out_of_time = True
        self._deadlines.discard(flight)
        self._deadlines.add(flight, _GRACE)

    def interrupt(self, flight: Flight) -> None:
        """Shutdown, the last step: stop what can be stopped. A body that a thread has begun is left
        alone; one that it has not begun by now never will."""
        if flight.threaded and not flight.asking and not self._threads.withhold(flight):
            return
        flight.cancel(StopReason.INTERRUPT)

    async def _fly(self, job: JobHandle, flight: Flight) -> None:
        late = self._clock.monotonic() > flight.begin_by
        outcome = _LATE if late else await run(job, flight, self._threads.run)
        if self._inflight.exorcise(flight):
            emit("execution.zombie_ended", **about(flight.claim))
        self._end(flight, outcome)

    def _ring(self, flight: Flight) -> None:
        """Its time is up: a coroutine is cancelled, a thread asked; a second later it is given up."""
        if flight.ended:
            return
        if flight.out_of_time:
            self._give_up(flight)
            return
        flight.out_of_time = True
        flight.stop(StopReason.DEADLINE)
        if not flight.threaded:
            flight.cancel(StopReason.DEADLINE)
        self._deadlines.add(flight, _GRACE)

    def _give_up(self, flight: Flight) -> None:
        """Its outcome is decided without it."""
        if flight.threaded:
            flight.cancel(flight.ctx.stop_reason or StopReason.DEADLINE)
            return
        self._inflight.haunt(flight)
        emit("execution.zombie", **about(flight.claim))
        self._end(flight, UNANSWERED if flight.asking else _TIMED_OUT)

    def _cancel(self, flight: Flight, reason: StopReason) -> None:
        if not flight.ended and not flight.threaded:
            flight.cancel(reason)

    def _end(self, flight: Flight, outcome: Outcome | None) -> None:
        """The one place where a flight gets its outcome."""
        if flight.ended:
            return
        self._deadlines.discard(flight)
        if self._threads.holds(flight):
            flight.on_end = lambda: self._free(flight)
            emit("execution.thread_lost", **about(flight.claim))
            flight.ended = True
        else:
            flight.ended = True
            self._free(flight)
        if flight.lost or outcome is None:
            self._inflight.settled(flight)
        else:
            self._settler.put(flight, outcome)

    def _free(self, flight: Flight) -> None:
        self._inflight.free(flight)
        self._freed()
