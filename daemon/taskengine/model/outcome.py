"""How a run ended, as a value; and what user code raises, or answers, on purpose to say so.

`Retry`, `Snooze`, `Discard` and `Aborted` are raised in a job's body and become an `Outcome` in
`lifecycle/run.py`; nothing else reads them.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

LONGEST_DELAY = 10 * 365 * 86400.0
"""Seconds: what a body asks for beyond it (`inf` too) is taken as ten years."""


class Ending(StrEnum):
    """The ways in which a run can end."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # an exception, or JobResult.failure
    TIMED_OUT = "timed_out"
    RETRY = "retry"  # the job asked for another attempt after its own delay
    SNOOZED = "snoozed"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # shutdown, the body had begun
    RELEASED = "released"  # the body had not begun
    ORPHANED = "orphaned"  # its worker died, or could not settle in time
    VERIFIED = "verified"  # not run again: the job's verify says that it was done
    UNVERIFIED = "unverified"  # verify cannot know: a person has to
    UNANSWERED = "unanswered"  # verify itself did not end well


class Outcome(NamedTuple):
    """How a run ended. `delay` is in seconds; `reason` a word or short sentence for the history."""

    ending: Ending
    result: str | None = None
    result_error: str | None = None
    reason: str = ""
    error: str | None = None
    traceback: str | None = None
    delay: float | None = None
    progress: int | None = None
    progress_message: str | None = None


class Verdict(StrEnum):
    """What a job's `verify` answers: was it done, before it was cut short?"""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


class _Asked(Exception):
    """Raised by a job on purpose."""


class Retry(_Asked):
    """Fail this attempt and set the delay of the next one: `raise Retry(after=30)` (seconds).

    Uses an attempt; where none is left, the execution fails.
    """

    def __init__(self, reason: str = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = None if after is None else min(seconds_of(after), LONGEST_DELAY)


class Snooze(_Asked):
    """Run again later, no attempt used: `raise Snooze(minutes=5)`."""

    def __init__(
        self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, reason: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        asked = seconds_of(timedelta(seconds=seconds, minutes=minutes, hours=hours))
        self.delay = min(asked, LONGEST_DELAY)


class Discard(_Asked):
    """Fail for good, whatever attempts are left: `raise Discard("no such employee")`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Aborted(_Asked):
    """Raised by `checkpoint()` and `check_abort()` when the execution is asked to stop."""


def seconds_of(value: float | timedelta) -> float:
    """Seconds, never negative."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    return max(0.0, seconds)
