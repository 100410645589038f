"""Log entries as lines on a stream.

Guarantees: a line that cannot be written is counted in `dropped` and otherwise forgotten; an entry
that cannot be formatted still says that it was there.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import TextIO

from taskengine.telemetry.redact import clean_text


class LineHandler(logging.Handler):
    """Writes lines to a stream, straight to its descriptor where it has one."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.dropped = 0
        self._write = _writer(stream)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception as error:  # a message that does not fit its arguments, a broken repr
            line = json.dumps(unformatted(record, error))
        try:
            self._write(line + "\n")
        except Exception:  # a full pipe, a closed one, no disk: the work matters more
            self.dropped += 1


def _writer(stream: TextIO) -> Callable[[str], None]:
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return lambda line: _write_text(stream, line)
    return _DescriptorWriter(descriptor)


def _write_text(stream: TextIO, line: str) -> None:
    stream.write(line)
    stream.flush()


class _DescriptorWriter:
    """Unbuffered; a line torn by a full pipe is closed before the next one begins."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._torn = False

    def __call__(self, line: str) -> None:
        rest = memoryview((("\n" if self._torn else "") + line).encode("utf-8", "backslashreplace"))
        while rest:
            written = os.write(self._descriptor, rest)
            rest = rest[written:]
            self._torn = bool(rest)


def unformatted(record: logging.LogRecord, error: Exception) -> dict[str, str]:
    """At least that there was an entry, and from where."""
    return {
        "level": record.levelname.lower(),
        "message": clean_text(str(record.msg)) if type(record.msg) is str else "?",
        "logger": record.name,
        "unformatted": type(error).__name__,
    }
