"""The log set up, and all as before afterwards; a socket in the journal's place."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from taskengine.telemetry.events import subscribe
from taskengine.telemetry.logs import LogEvents, Logs, set_up
from tests.telemetry.journal_reader import Reader

SetUp = Callable[..., Logs]


@pytest.fixture
def start() -> Iterator[SetUp]:
    """`set_up` with the events worded; all is as before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    made: list[Logs] = []
    ends: list[Callable[[], None]] = []

    def begin(stream: Any, level: str = "info", form: str = "json", **more: Any) -> Logs:
        listener = LogEvents(executions=more.pop("executions", False))
        logs = set_up(level, form, stream, **more)
        made.append(logs)
        ends.append(subscribe(listener, listener.wants))
        ends.append(subscribe(logs.origin.learn, logs.origin.wants))
        return logs

    yield begin
    for end in ends:
        end()
    for logs in made:
        logs.handler.close()
    root.handlers = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()
