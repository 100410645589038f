"""The two forms of a line: JSON, and one for people on a terminal.

Guarantee: in both no value can forge another entry.
"""

from __future__ import annotations

import json
from typing import TextIO

import structlog
from structlog.processors import EventRenamer
from structlog.typing import EventDict, Processor, WrappedLogger

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}
_CONTROL |= {ord("\n"): "\\n", ord("\t"): " ", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def json_lines() -> list[Processor]:
    return [EventRenamer("message", replace_by="_event"), _dump]


def _dump(logger: WrappedLogger, method: str, entry: EventDict) -> str:  # noqa: ARG001
    ordered = {key: entry.pop(key) for key in ("timestamp", "level", "message") if key in entry}
    return json.dumps(ordered | dict(entry), allow_nan=False)


def console(*, colors: bool) -> list[Processor]:
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


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (ValueError, AttributeError):
        return False
