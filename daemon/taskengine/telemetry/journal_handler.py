"""Log entries as entries of the journal: each field of its own, to be asked for.

`journalctl EXECUTION_ID=4711` shows one execution, `TASK=`, `QUEUE=`, `STORE=`, `ATTEMPT=`, `WORKER=`
and `EVENT=` likewise; `-p warning` goes by the level, `MESSAGE_ID=` by the kind of event; a traceback
is the field EXCEPTION. Guarantees: no value breaks an entry, forges another field, or takes the
place of one of those above.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from structlog.typing import EventDict, Processor

from taskengine.telemetry.journal import Journal, encode
from taskengine.telemetry.lines import unformatted
from taskengine.telemetry.message_ids import MESSAGE_IDS

ENGINE: Final = "taskengine"  # the logger of the engine's events, and the name in the journal
_PRIORITY = {"debug": "7", "info": "6", "warning": "4", "error": "3", "critical": "2"}
_OURS = ("MESSAGE", "PRIORITY", "EVENT", "LOGGER", "EXCEPTION", "TID")
_THEIRS = ("MESSAGE_", "SYSLOG_", "CODE_", "OBJECT_", "COREDUMP_")  # systemd reads them
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}
_CONTROL = {code: text for code, text in _CONTROL.items() if code not in (9, 10)}


class JournalHandler(logging.Handler):
    """Sends each record as an entry; `chain` is what makes an entry of a record not of structlog's."""

    def __init__(self, journal: Journal, chain: Sequence[Processor]) -> None:
        super().__init__()
        self._journal = journal
        self._chain = chain
        self._broken = 0

    @property
    def dropped(self) -> int:
        """How many entries were lost."""
        return self._journal.dropped + self._broken

    def emit(self, record: logging.LogRecord) -> None:
        try:
            entry = self._entry(record)
            packet = encode(fields_of(entry, record))
        except Exception as error:  # a message that does not fit its arguments, a broken repr
            packet = encode(fields_of(_stub(record, error), record))
        try:
            self._journal.send(packet)
        except Exception:  # the work matters more
            self._broken += 1

    def flush(self) -> None:
        """Let what waits be sent, for a moment."""
        self._journal.flush()

    def close(self) -> None:
        self._journal.close()
        super().close()

    def _entry(self, record: logging.LogRecord) -> EventDict:
        if hasattr(record, "_logger") and isinstance(record.msg, dict):
            return dict(record.msg)  # structlog has been through the chain with it
        entry: Any = {"event": record.getMessage(), "_record": record, "_from_structlog": False}
        if record.exc_info:
            entry["exc_info"] = record.exc_info
        if record.stack_info:
            entry["stack"] = record.stack_info
        for processor in self._chain:
            entry = processor(None, record.levelname.lower(), entry)
        return dict(entry)


def fields_of(entry: EventDict, record: logging.LogRecord) -> Iterator[tuple[str, str]]:
    """The entry's fields, by the journal's names; the entry is used up."""
    yield "MESSAGE", _text(entry.pop("event", ""))
    yield "PRIORITY", _PRIORITY.get(entry.pop("level", ""), "5")
    yield "SYSLOG_IDENTIFIER", ENGINE
    event = entry.pop("_event", None)
    if event is not None and record.name == ENGINE:
        yield "EVENT", event
        if event in MESSAGE_IDS:
            yield "MESSAGE_ID", MESSAGE_IDS[event]
    else:
        yield from _place(record)
    if "exception" in entry:
        yield "EXCEPTION", _text(entry.pop("exception"))
    for key, value in entry.items():
        if value is not None and key not in _META:
            yield field_name(key), _text(value)


_META = frozenset({"timestamp", "_record", "_from_structlog"})  # the journal has its own time


def _place(record: logging.LogRecord) -> Iterator[tuple[str, str]]:
    yield "LOGGER", record.name
    yield "CODE_FILE", record.pathname
    yield "CODE_LINE", str(record.lineno)
    yield "CODE_FUNC", record.funcName or "?"


@lru_cache(maxsize=1024)
def field_name(key: str) -> str:
    """The journal's name for a field: A-Z, 0-9 and _, at most 64, none that is somebody else's."""
    name = re.sub(r"[^A-Z0-9_]", "_", key.upper()).lstrip("_")[:63]
    if not name or name[0].isdigit():
        name = f"F_{name}"[:63]
    return f"{name}_" if name in _OURS or name.startswith(_THEIRS) else name


def _text(value: Any) -> str:
    if type(value) is str:
        # with control characters in it `journalctl` would show a blob
        return value if value.isprintable() else value.translate(_CONTROL)
    if type(value) is int:
        return str(value)
    return json.dumps(value)


def _stub(record: logging.LogRecord, error: Exception) -> EventDict:
    """At least that there was an entry, and from where."""
    stub = unformatted(record, error)
    return {"event": stub.pop("message"), **stub}
