"""What follows from how a run ended: one pure decision for workers and for recovery.

`decide` is the whole table of moves out of running (see "The execution" in the specification);
one fenced statement writes what it says.
"""

from __future__ import annotations

import random
from typing import NamedTuple, Protocol

from taskengine.model.outcome import Ending, Outcome
from taskengine.model.retry import backoff_delay, may_retry


class Held(Protocol):
    """What a decision needs to know of the execution: a `Claim` or an `Orphan`."""

    @property
    def id(self) -> int: ...
    @property
    def token(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def orphanings(self) -> int: ...
    @property
    def interruptions(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def retry_backoff(self) -> int: ...
    @property
    def max_orphanings(self) -> int: ...
    @property
    def max_interruptions(self) -> int: ...
    @property
    def on_interrupt(self) -> str: ...


class Success(NamedTuple):
    """running → succeeded."""

    id: int
    token: int
    result: str | None
    result_error: str | None
    progress: int | None
    progress_message: str | None


class Settlement(NamedTuple):
    """Any other move out of running. `delay` is in seconds from now, for a move to pending;
    `verify_next`: whether the next claim asks the job's verify first (None: as the row says)."""

    id: int
    token: int
    move: str
    state: str
    delay: float = 0.0
    attempt_step: int = 0
    interruption_step: int = 0
    orphaning_step: int = 0
    reason: str = ""
    error: str | None = None
    traceback: str | None = None
    progress: int | None = None
    progress_message: str | None = None
    verify_next: bool | None = None


_FINAL = {
    Ending.DISCARDED: ("discarded", "failed"),
    Ending.CANCELLED: ("cancelled", "cancelled"),
    Ending.VERIFIED: ("verified", "succeeded"),
    Ending.UNVERIFIED: ("failed", "failed"),
}


def decide(held: Held, outcome: Outcome, rng: random.Random) -> Success | Settlement:
    """What follows from `outcome`."""
    match outcome.ending:
        case Ending.SUCCEEDED:
            return Success(
                held.id,
                held.token,
                outcome.result,
                outcome.result_error,
                outcome.progress,
                outcome.progress_message,
            )
        case Ending.FAILED | Ending.TIMED_OUT | Ending.RETRY:
            return _after_failure(held, outcome, rng)
        case Ending.SNOOZED:
            delay = outcome.delay or 0.0
            return _settlement(held, outcome, "snoozed", "pending", delay=delay, verify=False)
        case Ending.RELEASED:
            return _settlement(held, outcome, "released", "pending", delay=outcome.delay or 0.0)
        case Ending.INTERRUPTED:
            return _after_interrupt(held, outcome)
        case Ending.ORPHANED:
            return _after_orphaning(held, outcome, rng)
        case Ending.UNANSWERED:
            return _after_no_answer(held, outcome, rng)
        case _:
            return _settlement(held, outcome, *_FINAL[outcome.ending])


def _after_failure(held: Held, outcome: Outcome, rng: random.Random) -> Settlement:
    if not may_retry(held.attempt, held.max_attempts):
        return _settlement(held, outcome, "failed", "failed")
    delay = outcome.delay
    if delay is None:
        delay = backoff_delay(held.attempt + 1, held.retry_backoff, rng)
    return _settlement(
        held, outcome, "retried", "pending", delay=delay, attempt_step=1, verify=False
    )


def _after_interrupt(held: Held, outcome: Outcome) -> Settlement:
    """Same attempt; quarantined as failed where it was stopped too often."""
    too_often = held.interruptions + 1 >= held.max_interruptions
    state = "failed" if too_often or held.on_interrupt == "fail" else "pending"
    verify = held.on_interrupt == "verify"
    return _settlement(held, outcome, "interrupted", state, interruption_step=1, verify=verify)


def _after_orphaning(held: Held, outcome: Outcome, rng: random.Random) -> Settlement:
    """Uses an attempt, because the body may have begun; at once after the first, then backed off."""
    ended = (
        held.on_interrupt == "fail"
        or held.orphanings + 1 >= held.max_orphanings
        or not may_retry(held.attempt, held.max_attempts)
    )
    if ended:
        return _settlement(held, outcome, "orphaned", "failed", orphaning_step=1)
    again = held.orphanings > 0
    delay = backoff_delay(held.attempt + 1, held.retry_backoff, rng) if again else 0.0
    return _settlement(
        held,
        outcome,
        "orphaned",
        "pending",
        delay=delay,
        attempt_step=1,
        orphaning_step=1,
        verify=held.on_interrupt == "verify",
    )


def _after_no_answer(held: Held, outcome: Outcome, rng: random.Random) -> Settlement:
    """Asked again later. The body did not run, so no attempt is used; what bounds it is the number
    of interruptions, each of which makes the next wait longer."""
    if held.interruptions + 1 >= held.max_interruptions:
        return _settlement(held, outcome, "failed", "failed", interruption_step=1)
    delay = outcome.delay
    if delay is None:
        delay = backoff_delay(held.interruptions + 2, held.retry_backoff, rng)
    return _settlement(held, outcome, "released", "pending", delay=delay, interruption_step=1)


def _settlement(
    held: Held,
    outcome: Outcome,
    move: str,
    state: str,
    *,
    delay: float = 0.0,
    attempt_step: int = 0,
    interruption_step: int = 0,
    orphaning_step: int = 0,
    verify: bool | None = None,
) -> Settlement:
    return Settlement(
        held.id,
        held.token,
        move,
        state,
        delay,
        attempt_step,
        interruption_step,
        orphaning_step,
        outcome.reason or outcome.ending.value,
        outcome.error,
        outcome.traceback,
        outcome.progress,
        outcome.progress_message,
        verify,
    )
