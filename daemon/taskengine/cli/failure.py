"""An error as an operator reads it, and the exit status that a script reads."""

from __future__ import annotations

import sys

from taskengine import errors
from taskengine.cli.words import clean
from taskengine.telemetry.journal import goes_to_journal
from taskengine.telemetry.redact import clean_text

OK, FAILURE, USAGE, NOT_FOUND, REFUSED, UNREACHABLE, TEMPFAIL, CONFIG = 0, 1, 2, 3, 4, 5, 75, 78

# The first that fits counts: what is special stands before what is general.
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.ConfigError, CONFIG),
    (errors.MigrationError, CONFIG),
    (errors.WrongDatabase, CONFIG),
    (errors.UnknownJob, NOT_FOUND),
    (errors.UnknownQueue, NOT_FOUND),
    (errors.UnknownStore, NOT_FOUND),
    (errors.ExecutionNotFound, NOT_FOUND),
    (errors.ExecutionEmptied, REFUSED),
    (errors.InvalidMove, REFUSED),
    (errors.JobDisabled, REFUSED),
    (errors.PayloadError, USAGE),
    (errors.KeyTooLong, USAGE),
    (errors.InvalidSetting, USAGE),
    (errors.ScheduleError, USAGE),
    (errors.StoreRequired, USAGE),
    (errors.DataRejected, USAGE),
    (errors.StoreBusy, TEMPFAIL),
    (errors.Away, UNREACHABLE),
    (TimeoutError, TEMPFAIL),
)


class NotFound(errors.TaskEngineError):
    """What was named does not exist."""


class Refused(errors.TaskEngineError):
    """It will not be done just so; the message says how it would be."""


_OWN: tuple[tuple[type[Exception], int], ...] = ((NotFound, NOT_FOUND), (Refused, REFUSED))


def status_of(error: Exception) -> int:
    """The exit status for an error."""
    known = (*_OWN, *_STATUS)
    return next((status for kind, status in known if isinstance(error, kind)), FAILURE)


def report(error: Exception) -> int:
    """Say what went wrong; the exit status. What is none of the family's is a bug: it is raised."""
    if not isinstance(error, errors.TaskEngineError | TimeoutError):
        raise error
    complain(error)
    return status_of(error)


def complain(error: Exception) -> None:
    """The message on stderr: one line, or one for each problem of a configuration. In the journal it
    is an error, not a remark."""
    mark = "<3>" if goes_to_journal(sys.stderr) else ""
    text = str(error) or type(error).__name__
    for line in clean_text(text).splitlines():
        print(f"{mark}taskengine: {clean(line)}", file=sys.stderr)  # noqa: T201
