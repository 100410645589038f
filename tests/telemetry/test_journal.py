"""What is sent to the journal, read at a real socket by the protocol's own rules."""

import io
import logging
import os
import socket
import warnings
from pathlib import Path

import pytest
import structlog

from taskengine.telemetry import origin
from taskengine.telemetry.events import emit
from taskengine.telemetry.journal_handler import field_name
from taskengine.telemetry.logs import flush
from taskengine.telemetry.message_ids import MESSAGE_IDS
from tests.telemetry.conftest import SetUp
from tests.telemetry.journal_reader import Reader
from tests.telemetry.test_logs import Claim, Hostile, refuse


@pytest.fixture
def begin(start: SetUp, journal: Reader) -> SetUp:
    """The log, going to the socket."""
    return lambda level="info": start(io.StringIO(), level, "journal", socket=journal.address)


def test_an_event_is_an_entry_with_fields(begin: SetUp, journal: Reader) -> None:
    begin()
    error = ValueError("no mail")
    emit("worker.joined", worker_id=7)
    emit("execution.failed", execution_id=4711, task="send-paystub", attempt=3, error=error)
    journal.entry()
    entry = journal.entry()
    assert entry.pop("EXCEPTION").endswith("ValueError: no mail")
    assert entry == {
        "MESSAGE": "send-paystub failed for good: no mail",
        "PRIORITY": "3",
        "SYSLOG_IDENTIFIER": "taskengine",
        "EVENT": "execution.failed",
        "MESSAGE_ID": MESSAGE_IDS["execution.failed"],
        "EXECUTION_ID": "4711",
        "TASK": "send-paystub",
        "ATTEMPT": "3",
        "ERROR": "ValueError: no mail",
        "WORKER": "7",
    }


def test_what_a_job_logs_names_its_execution_and_its_place(begin: SetUp, journal: Reader) -> None:
    begin()
    origin.begin(Claim())
    logging.getLogger("shop.jobs").warning("slow")
    structlog.get_logger("shop.jobs").info("sent", employee=9, execution_id=1, lines=[1, "a"])
    origin.end()
    foreign, bound = journal.entry(), journal.entry()
    who = {"EXECUTION_ID": "4711", "TASK": "send-paystub", "QUEUE": "high", "ATTEMPT": "2"}
    assert foreign.items() >= {**who, "STORE": "0012", "MESSAGE": "slow", "PRIORITY": "4"}.items()
    assert bound.items() >= {**who, "EMPLOYEE": "9", "EXECUTION_ID_": "1"}.items()
    assert bound["LINES"] == '[1, "a"]'
    for entry in (foreign, bound):
        assert entry["CODE_FILE"] == __file__
        assert entry["CODE_FUNC"] == "test_what_a_job_logs_names_its_execution_and_its_place"
        assert entry["LOGGER"] == "shop.jobs"
        assert "EVENT" not in entry


@pytest.mark.parametrize(
    ("level", "priority"),
    [("debug", "7"), ("info", "6"), ("warning", "4"), ("error", "3"), ("critical", "2")],
)
def test_priority_is_by_level(begin: SetUp, journal: Reader, level: str, priority: str) -> None:
    begin("debug")
    getattr(logging.getLogger("lib"), level)("x")
    assert journal.entry()["PRIORITY"] == priority


def test_no_value_forges_a_field_or_an_entry(begin: SetUp, journal: Reader) -> None:
    begin()
    forged = "x\nPRIORITY=0\nMESSAGE=forged\n\0\x1b[31m\ud800"
    structlog.get_logger("lib").warning(
        forged, forged=forged, MESSAGE="no", priority=0, _PID=1, _event="execution.failed"
    )
    pairs = journal.pairs()
    assert len({name for name, _ in pairs}) == len(pairs)
    entry = dict(pairs)
    assert (
        entry["MESSAGE"]
        == entry["FORGED"]
        == ("x\nPRIORITY=0\nMESSAGE=forged\n\\x00\\x1b[31m\\ud800")
    )
    assert (entry["PRIORITY"], entry["PRIORITY_"], entry["MESSAGE_"]) == ("4", "0", "no")
    assert entry["PID"] == "1"
    assert "EVENT" not in entry
    assert "MESSAGE_ID" not in entry


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("employee", "EMPLOYEE"),
        ("Überstunden-Konto", "BERSTUNDEN_KONTO"),
        ("_secret", "SECRET"),
        ("9th", "F_9TH"),
        ("", "F_"),
        ("message_id", "MESSAGE_ID_"),
        ("CODE_FILE", "CODE_FILE_"),
        ("syslog_facility", "SYSLOG_FACILITY_"),
        ("exception", "EXCEPTION_"),
        ("x" * 100, "X" * 63),
    ],
)
def test_names_are_such_as_the_journal_takes(key: str, name: str) -> None:
    assert field_name(key) == name


def test_secrets_and_rows_of_postgres_are_hidden(begin: SetUp, journal: Reader) -> None:
    begin()
    dsn = "postgresql://app:hunter2@db/x"
    emit("service.failed", service="x", error=ConnectionError(dsn), dsn=dsn)
    try:
        refuse(dsn)
    except ConnectionError:
        structlog.get_logger("lib").exception("failed %s", dsn, password="hunter2")
    emit("loop.failed", error=ValueError('DETAIL: Failing row contains (1, {"iban": "hunter2"}).'))
    for _ in range(3):
        assert "hunter2" not in str(journal.entry())


def test_no_value_breaks_an_entry(begin: SetUp, journal: Reader) -> None:
    logs = begin()
    emit("job.skipped", task="\ud800", reason=Hostile(), extra=float("nan"), event="x", level=1)
    logging.getLogger("lib").warning("%s", Hostile())
    logging.getLogger("lib").warning("%d", "no number")
    logging.getLogger("lib").warning(Hostile())
    structlog.get_logger("lib").warning("x", **{"a-b": 1, "a_b": 2, "ünder": 3})
    assert journal.entry()["EVENT"] == "job.skipped"
    assert [journal.entry()["MESSAGE"] for _ in range(3)] == ["%s", "%d", "?"]
    assert ("A_B", "2") in journal.pairs()
    assert logs.dropped == 0


def test_warnings_of_python_come_too(begin: SetUp, journal: Reader) -> None:
    begin()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", UserWarning, stacklevel=1)
    entry = journal.entry()
    assert entry["LOGGER"] == "py.warnings"
    assert "UserWarning: old" in entry["MESSAGE"]


def test_no_journal_drops_and_counts(begin: SetUp, journal: Reader) -> None:
    logs = begin()
    Path(journal.address).unlink()
    emit("process.stopped")
    assert logs.dropped == 1
    closed = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    closed.bind(journal.address)
    closed.close()  # refuses, as a journal does that was killed
    emit("process.stopped")
    assert logs.dropped == 2


def test_it_is_back_when_the_journal_is(begin: SetUp, journal: Reader) -> None:
    logs = begin()
    Path(journal.address).unlink()
    emit("process.stopped")
    again = Reader(Path(journal.address).parent)
    emit("process.ready", services=3)
    assert again.entry()["MESSAGE"] == "ready: 3 services run"
    assert logs.dropped == 1
    again.close()


def test_what_waits_is_sent_before_the_process_ends(begin: SetUp, journal: Reader) -> None:
    begin()
    for number in range(600):
        emit("job.registered", count=number)
    emit("process.failed", error="the end")
    entries = [journal.entry() for _ in range(601)]
    flush()
    assert entries[-1]["MESSAGE"] == "the process ends: the end"
    assert journal.nothing()


def test_where_there_is_no_journal_it_is_lines(start: SetUp, tmp_path: Path) -> None:
    start(stream := io.StringIO(), form="journal", socket=str(tmp_path / "none"))
    emit("process.stopped")
    assert '"message": "stopped"' in stream.getvalue()


@pytest.mark.parametrize("connected", [True, False])
def test_auto_goes_by_the_stream(
    start: SetUp,
    journal: Reader,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connected: bool,
) -> None:
    with (tmp_path / "stderr").open("w") as stream:
        status = os.fstat(stream.fileno())
        inode = status.st_ino + (not connected)
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{inode}")
        start(stream, form="auto", socket=journal.address)
        emit("process.stopped")
    written = (tmp_path / "stderr").read_text()
    assert (written == "") is connected
    assert journal.nothing() is not connected
