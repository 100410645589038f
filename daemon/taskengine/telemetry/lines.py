"""Log entries as lines on a stream.

Guarantees: no entry waits for its reader; a line that cannot be written is counted in `dropped` and
told once it is read on; an entry that cannot be formatted still says that it was there.
"""

from __future__ import annotations

import json
import logging
from typing import TextIO

from taskengine.telemetry.patient import PatientWriter
from taskengine.telemetry.redact import clean_text


class LineHandler(logging.Handler):
    """Writes lines to a stream, straight to its descriptor where it has one."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._writer = _writer(stream)
        self._unwritten = 0
        self._told = 0

    @property
    def dropped(self) -> int:
        """How many entries were lost."""
        return self._unwritten + (self._writer.dropped if self._writer else 0)

    def emit(self, record: logging.LogRecord) -> None:
        lost = self._lost()
        lines = [*([self._line(_missing(record, lost))] if lost else ()), self._line(record)]
        try:
            self._write("".join(f"{line}\n" for line in lines))
        except Exception:  # a closed pipe, no disk: the work matters more
            self._unwritten += 1
        else:
            self._told += lost

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record)
        except Exception as error:  # a message that does not fit its arguments, a broken repr
            return json.dumps(unformatted(record, error))

    def _lost(self) -> int:
        """How many entries are missing here, if the reader reads again and was not told."""
        return 0 if self._writer and self._writer.waits else self.dropped - self._told

    def flush(self) -> None:
        """Let what waits be written, for a moment."""
        if self._writer:
            self._writer.flush()

    def close(self) -> None:
        if self._writer:
            self._writer.close()
        super().close()

    def _write(self, line: str) -> None:
        if self._writer:
            self._writer.write(line.encode("utf-8", "backslashreplace"))
        else:
            self._stream.write(line)
            self._stream.flush()


def _writer(stream: TextIO) -> PatientWriter | None:
    """None: the stream is none of the system's."""
    try:
        return PatientWriter(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return None


def _missing(record: logging.LogRecord, lost: int) -> logging.LogRecord:
    text, place = "%d log lines are missing here: they could not be written", (record.pathname, 0)
    return logging.LogRecord(record.name, logging.WARNING, *place, text, (lost,), None)


def unformatted(record: logging.LogRecord, error: Exception) -> dict[str, str]:
    """At least that there was an entry, and from where."""
    return {
        "level": record.levelname.lower(),
        "message": clean_text(str(record.msg)) if type(record.msg) is str else "?",
        "logger": record.name,
        "unformatted": type(error).__name__,
    }
