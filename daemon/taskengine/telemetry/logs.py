"""The log: one line an entry, for people on a terminal and as JSON elsewhere.

Guarantees: no secret gets in (see `redact`); no value, however broken, stops an entry; in both
forms no value can forge another entry; a line that cannot be written is counted in `dropped` and
otherwise forgotten: logging never raises and never stops the work. Python's own `logging` ends up
here as well.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TextIO

import structlog
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.processors import EventRenamer, TimeStamper
from structlog.stdlib import BoundLogger, LoggerFactory, ProcessorFormatter, add_log_level
from structlog.typing import EventDict, Processor, WrappedLogger

from taskengine.telemetry import events
from taskengine.telemetry.redact import clean, clean_text
from taskengine.telemetry.wording import level_of, words_for

_NOISY = {"asyncio": logging.WARNING, "uvicorn": logging.WARNING}
_TAKEN = frozenset({"event", "message", "level", "timestamp", "logger", "exc_info", "_event"})
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}
_CONTROL |= {ord("\n"): "\\n", ord("\t"): " ", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class Logs:
    """The log of this process, as set up by `set_up`."""

    def __init__(self, stream: TextIO, form: str) -> None:
        self.handler = LineHandler(stream)
        terminal = _is_terminal(stream)
        console = form == "console" or (form == "auto" and terminal)
        colors = terminal and not os.environ.get("NO_COLOR")
        self.handler.setFormatter(_formatter(_console(colors=colors) if console else _json()))

    @property
    def dropped(self) -> int:
        """How many lines could not be written."""
        return self.handler.dropped

    def set_level(self, level: str) -> None:
        """From now on: debug, info, warning or error."""
        logging.getLogger().setLevel(level.upper())
        events.refresh()


def set_up(level: str, form: str, stream: TextIO) -> Logs:
    """Have everything logged in this process go to `stream`; `form`: auto, console or json."""
    logs = Logs(stream, form)
    root = logging.getLogger()
    root.handlers = [logs.handler]
    for name, least in _NOISY.items():
        logging.getLogger(name).setLevel(least)
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=LoggerFactory(),
        wrapper_class=BoundLogger,
    )
    logs.set_level(level)
    return logs


def context(**fields: Any) -> AbstractContextManager[None]:
    """Fields of every entry made within: execution_id, task, queue, store, attempt, worker."""
    return bound_contextvars(**fields)


class LogEvents:
    """Words what happens: subscribe with `subscribe(log_events, log_events.wants)`."""

    def __init__(self) -> None:
        self._name = "taskengine"
        self._logger: BoundLogger = structlog.stdlib.get_logger(self._name)

    def wants(self, event: str) -> bool:
        return logging.getLogger(self._name).isEnabledFor(level_of(event))

    def __call__(self, event: str, fields: events.Fields) -> None:
        level = level_of(event)
        if "rows" in fields:
            fields = {**fields, "rows": None, "count": len(fields["rows"])}
        error = fields.get("error")
        told = {
            f"{key}_" if key in _TAKEN else key: value
            for key, value in fields.items()
            if value is not None
        }
        if level >= logging.ERROR and isinstance(error, BaseException):
            told["exc_info"] = error
        self._logger.log(level, words_for(event, fields), _event=event, **told)


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
            line = _fallback(record, error)
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


def _shared() -> list[Processor]:
    """What every entry goes through, wherever it comes from; redaction before anything looks."""
    return [merge_contextvars, _exception_text, _redact, add_log_level, _timestamp]


_timestamp = TimeStamper(fmt="iso", utc=True)


def _formatter(renderers: list[Processor]) -> ProcessorFormatter:
    return ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[ProcessorFormatter.remove_processors_meta, *renderers],
    )


def _exception_text(logger: WrappedLogger, method: str, entry: EventDict) -> EventDict:
    """The traceback as text, so that redaction reads it too."""
    return structlog.processors.format_exc_info(logger, method, entry)


def _redact(logger: WrappedLogger, method: str, entry: EventDict) -> EventDict:  # noqa: ARG001
    return {
        key: value if key in ("_record", "_from_structlog") else clean(value, key)
        for key, value in entry.items()
    }


def _json() -> list[Processor]:
    return [EventRenamer("message", replace_by="_event"), _dump]


def _dump(logger: WrappedLogger, method: str, entry: EventDict) -> str:  # noqa: ARG001
    ordered = {key: entry.pop(key) for key in ("timestamp", "level", "message") if key in entry}
    return json.dumps(ordered | dict(entry), allow_nan=False)


def _console(*, colors: bool) -> list[Processor]:
    return [
        _one_line,
        structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        ),
    ]


def _one_line(logger: WrappedLogger, method: str, entry: EventDict) -> EventDict:  # noqa: ARG001
    """No line breaks and no escape sequences from values; tracebacks keep their lines."""
    entry.pop("_event", None)
    return {
        key: value.translate(_CONTROL) if isinstance(value, str) and key != "exception" else value
        for key, value in entry.items()
    }


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (ValueError, AttributeError):
        return False


def _fallback(record: logging.LogRecord, error: Exception) -> str:
    """At least that there was an entry, and from where."""
    return json.dumps(
        {
            "level": record.levelname.lower(),
            "message": clean_text(str(record.msg)) if type(record.msg) is str else "?",
            "logger": record.name,
            "unformatted": type(error).__name__,
        }
    )
