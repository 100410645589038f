"""What is written, that it cannot be forged or broken, and that it never stops the work."""

import asyncio
import io
import json
import logging
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

from taskengine.telemetry import origin
from taskengine.telemetry.events import emit, heard
from taskengine.telemetry.wording import WORDING, words_for
from tests.telemetry.conftest import SetUp


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def refuse(dsn: str) -> None:
    raise ConnectionError(dsn)


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().split("\n") if line]


def test_an_event_is_worded_with_its_fields(start: SetUp) -> None:
    start(stream := io.StringIO())
    error = ValueError("no mail")
    emit("execution.failed", task="send-paystub", reason="no mail", error=error)
    (entry,) = entries(stream)
    assert entry["message"] == "send-paystub failed for good: no mail"
    assert (entry["event"], entry["level"], entry["task"]) == (
        "execution.failed",
        "error",
        "send-paystub",
    )
    assert entry["timestamp"].endswith("Z")
    assert "ValueError: no mail" in entry["exception"]


class Claim(NamedTuple):
    id: int = 4711
    job: str = "send-paystub"
    queue: str = "high"
    attempt: int = 2
    type_num: str | None = "0012"


WHO = {"execution_id": 4711, "task": "send-paystub", "queue": "high", "attempt": 2, "store": "0012"}


async def test_what_is_logged_within_an_execution_is_its_own(start: SetUp) -> None:
    start(stream := io.StringIO())
    library = logging.getLogger("some.library")
    origin.begin(Claim())
    library.warning("slow")
    await asyncio.to_thread(structlog.get_logger("shop").info, "sent", execution_id=1)
    await asyncio.create_task(logged(library))
    emit("broker.back")
    origin.end()
    library.warning("outside")
    *within, engine, outside = entries(stream)
    assert all(entry.items() >= WHO.items() for entry in within)
    assert len(within) == 3
    assert within[1]["execution_id_"] == 1
    assert "execution_id" not in engine
    assert "execution_id" not in outside


async def logged(logger: logging.Logger) -> None:
    logger.warning("in a task")


def test_the_worker_is_named_once_it_is_known(start: SetUp) -> None:
    start(stream := io.StringIO())
    emit("broker.back")
    emit("worker.joined", worker_id=7)
    emit("broker.back")
    logging.getLogger("lib").warning("slow")
    first, *_, event, foreign = entries(stream)
    assert "worker" not in first
    assert (event["worker"], foreign["worker"]) == (7, 7)


def test_level_changes_at_run_time(start: SetUp) -> None:
    logs = start(stream := io.StringIO())
    emit("executions.claimed", rows=[1, 2, 3])
    logging.getLogger("lib").debug("unheard")
    logs.set_level("debug")
    emit("executions.claimed", rows=[1, 2, 3])
    logging.getLogger("lib").debug("heard")
    logs.set_level("error")
    emit("process.stopped")
    assert [entry["message"] for entry in entries(stream)] == ["3 claimed", "heard"]


@pytest.mark.parametrize("executions", [True, False])
def test_each_executions_life_is_told_where_it_is_asked_for(start: SetUp, executions: bool) -> None:
    start(stream := io.StringIO(), executions=executions)
    for step in ("dispatched", "started", "snoozed", "succeeded"):
        assert heard(f"execution.{step}") is executions
        emit(f"execution.{step}", execution_id=4711, task="pay", queue="high", waited=0.1)
    emit("executions.claimed", rows=[1])
    told = [(entry["level"], entry["message"]) for entry in entries(stream)]
    words = ["pay dispatched to high", "pay started, 0.100 s after its time", "pay snoozed"]
    expected = [("info", text) for text in [*words, "pay succeeded"]]
    assert told == (expected if executions else [])


def test_secrets_of_fields_messages_and_exceptions_are_hidden(start: SetUp) -> None:
    start(stream := io.StringIO())
    dsn = "postgresql://app:hunter2@db/x"
    emit("broker.away", error=ConnectionError(dsn), dsn="hunter2", nested={"token": "hunter2"})
    emit("service.failed", service="x", error=ConnectionError(dsn))
    logging.getLogger("asyncpg").warning("cannot reach %s", dsn)
    try:
        refuse(dsn)
    except ConnectionError:
        logging.getLogger("lib").exception("failed")
        structlog.get_logger("direct").exception("failed", password="hunter2")
    assert len(entries(stream)) == 5
    assert "hunter2" not in stream.getvalue()


def test_a_newline_cannot_forge_an_entry(start: SetUp) -> None:
    start(stream := io.StringIO())
    forged = 'x\n{"level": "error"}\r\u2028y'
    logging.getLogger("lib").warning(forged)
    emit("job.skipped", task=forged, reason="x")
    assert len(stream.getvalue().splitlines()) == 2
    assert entries(stream)[0]["message"] == forged


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_value_breaks_an_entry(start: SetUp, form: str) -> None:
    start(stream := io.StringIO(), form=form)
    emit("job.skipped", task="\ud800", reason=Hostile(), extra=float("nan"), event="x", level=1)
    logging.getLogger("lib").warning("%s", Hostile())
    logging.getLogger("lib").warning("%d", "no number")
    logging.getLogger("lib").warning(Hostile())
    assert len(stream.getvalue().splitlines()) == 4


def test_console_has_no_control_characters_from_values(start: SetUp) -> None:
    start(stream := io.StringIO(), form="console")
    logging.getLogger("lib").warning("red \x1b[31m\nforged")
    (line,) = stream.getvalue().splitlines()
    assert "red \\x1b[31m\\nforged" in line


def test_auto_is_json_where_nobody_looks(start: SetUp) -> None:
    start(stream := io.StringIO(), form="auto")
    emit("process.stopped")
    assert entries(stream)[0]["message"] == "stopped"


def test_auto_is_console_on_a_terminal(start: SetUp) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    start(stream := Terminal(), form="auto")
    emit("process.stopped")
    assert "stopped" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_a_file_gets_whole_lines(start: SetUp, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        logs = start(stream)
        emit("process.stopped")
    assert json.loads((tmp_path / "log").read_text())["message"] == "stopped"
    assert logs.dropped == 0


def test_a_closed_pipe_drops_and_counts(start: SetUp) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        logs = start(stream)
        emit("process.stopped")
        emit("process.stopped")
    assert logs.dropped == 2


def test_a_closed_stream_drops_and_counts(start: SetUp) -> None:
    stream = io.StringIO()
    logs = start(stream)
    stream.close()
    emit("process.stopped")
    assert logs.dropped == 1


@pytest.mark.parametrize("event", sorted(WORDING))
def test_every_event_reads_without_its_fields(event: str) -> None:
    assert "{" not in words_for(event, {})


def test_every_event_that_the_code_tells_of_has_words() -> None:
    """Whoever adds an event words it in `telemetry/wording.py`, or it hides at debug level."""
    sources = (Path(__file__).parents[2] / "daemon" / "taskengine").rglob("*.py")
    told = {
        name
        for source in sources
        for name in re.findall(r'(?<!Code says `)\bemit\(\s*"([\w.]+)"', source.read_text())
    }
    assert told - set(WORDING) == set()


def test_of_rows_only_their_number_is_logged(start: SetUp) -> None:
    start(stream := io.StringIO(), "debug")
    emit("executions.claimed", rows=[("high", "send-paystub", 0.1)] * 500)
    (entry,) = entries(stream)
    assert entry["message"] == "500 claimed"
    assert "rows" not in entry


def test_an_unlisted_event_reads_as_its_name() -> None:
    assert words_for("thing.happened", {}) == "thing.happened"
