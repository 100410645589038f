"""The log: entries in the journal, lines for people on a terminal, JSON lines elsewhere.

Guarantees: no secret gets in (see `redact`); no value, however broken, stops an entry; in no form
can a value forge another entry; an entry that cannot be written is counted in `dropped` and
otherwise forgotten: logging never raises and never stops the work. Python's own `logging` ends up
here as well.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TextIO

import structlog
from structlog.contextvars import merge_contextvars
from structlog.processors import TimeStamper
from structlog.stdlib import BoundLogger, LoggerFactory, ProcessorFormatter, add_log_level
from structlog.typing import EventDict, Processor, WrappedLogger

from taskengine.telemetry import events, forms
from taskengine.telemetry.journal import SOCKET, Journal, goes_to_journal
from taskengine.telemetry.journal_handler import ENGINE, JournalHandler
from taskengine.telemetry.lines import LineHandler
from taskengine.telemetry.origin import Origin
from taskengine.telemetry.redact import clean
from taskengine.telemetry.wording import level_of, words_for

_NOISY = {"asyncio": logging.WARNING, "uvicorn": logging.WARNING}
_LIFE = frozenset(f"execution.{step}" for step in ("dispatched", "started", "snoozed", "succeeded"))
_TAKEN = frozenset({"event", "message", "level", "timestamp", "logger", "exc_info", "_event"})


class Logs:
    """The log of this process, as set up by `set_up`."""

    def __init__(self, handler: LineHandler | JournalHandler, origin: Origin) -> None:
        self.handler = handler
        self.origin = origin

    @property
    def dropped(self) -> int:
        """How many entries could not be written."""
        return self.handler.dropped

    def set_level(self, level: str) -> None:
        """From now on: debug, info, warning or error."""
        logging.getLogger().setLevel(level.upper())
        events.refresh()


def set_up(level: str, form: str, stream: TextIO, socket: str = SOCKET) -> Logs:
    """Have everything logged in this process go to `stream`, or past it to the journal; `form`:
    auto, journal, console or json. Where there is no journal, `journal` means JSON lines."""
    origin = Origin()
    chain = _shared(origin)
    logs = Logs(_handler(form, stream, socket, chain), origin)
    root = logging.getLogger()
    root.handlers = [logs.handler]
    for name, least in _NOISY.items():
        logging.getLogger(name).setLevel(least)
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *chain,
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=LoggerFactory(),
        wrapper_class=BoundLogger,
    )
    logs.set_level(level)
    return logs


def flush() -> None:
    """Before the process ends without Python's own end: let what waits be written, for a moment."""
    for handler in logging.getLogger().handlers:
        handler.flush()


class LogEvents:
    """Words what happens: subscribe with `subscribe(log_events, log_events.wants)`."""

    def __init__(self, *, executions: bool = False) -> None:
        """`executions`: what is done with each one is told at info level, not only at debug."""
        self._told = _LIFE if executions else frozenset[str]()
        self._name = ENGINE
        self._logger: BoundLogger = structlog.stdlib.get_logger(self._name)

    def wants(self, event: str) -> bool:
        return logging.getLogger(self._name).isEnabledFor(self._level(event))

    def _level(self, event: str) -> int:
        return logging.INFO if event in self._told else level_of(event)

    def __call__(self, event: str, fields: events.Fields) -> None:
        level = self._level(event)
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


def _handler(
    form: str, stream: TextIO, socket: str, chain: list[Processor]
) -> LineHandler | JournalHandler:
    native = form == "journal" or (form == "auto" and goes_to_journal(stream))
    if native and Path(socket).exists():
        return JournalHandler(Journal(socket), chain)
    terminal = forms.is_terminal(stream)
    people = form == "console" or (form == "auto" and terminal)
    colors = terminal and not os.environ.get("NO_COLOR")
    handler = LineHandler(stream)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=chain,
            processors=[
                ProcessorFormatter.remove_processors_meta,
                *(forms.console(colors=colors) if people else forms.json_lines()),
            ],
        )
    )
    return handler


def _shared(origin: Origin) -> list[Processor]:
    """What every entry goes through, wherever it comes from; redaction before anything looks."""
    return [merge_contextvars, origin, _exception_text, _redact, add_log_level, _timestamp]


_timestamp = TimeStamper(fmt="iso", utc=True)


def _exception_text(logger: WrappedLogger, method: str, entry: EventDict) -> EventDict:
    """The traceback as text, so that redaction reads it too."""
    return structlog.processors.format_exc_info(logger, method, entry)


def _redact(logger: WrappedLogger, method: str, entry: EventDict) -> EventDict:  # noqa: ARG001
    return {
        key: value if key in ("_record", "_from_structlog") else clean(value, key)
        for key, value in entry.items()
    }
