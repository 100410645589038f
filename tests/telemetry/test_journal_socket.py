"""What a journal that is slow, stuck or far too small for an entry makes of us: nothing."""

import io
import os
from pathlib import Path

from taskengine.telemetry.journal import Journal, encode, goes_to_journal
from tests.telemetry.journal_reader import Reader


def test_what_no_datagram_holds_goes_as_a_sealed_file(journal: Reader) -> None:
    sender = Journal(journal.address)
    large = "é" * (12 << 20)
    sender.send(encode([("MESSAGE", "large"), ("BLOB", large)]))
    assert journal.entry() == {"MESSAGE": "large", "BLOB": large}
    assert journal.files == 1
    sender.close()


def test_a_burst_waits_for_a_slow_journal_in_order(journal: Reader) -> None:
    sender = Journal(journal.address)
    for number in range(3000):  # far more than a socket queues
        sender.send(encode([("NUMBER", str(number))]))
    assert [journal.entry()["NUMBER"] for _ in range(3000)] == [str(n) for n in range(3000)]
    sender.flush(20.0)
    sender.send(encode([("NUMBER", "after")]))
    assert journal.entry()["NUMBER"] == "after"
    assert sender.dropped == 0
    sender.close()


def test_a_journal_that_is_stuck_costs_entries_and_no_more(journal: Reader) -> None:
    sender = Journal(journal.address)
    for _ in range(20_000):  # returns although nobody reads
        sender.send(encode([("MESSAGE", "x")]))
    dropped = sender.dropped
    assert 10_000 < dropped < 20_000
    sender.close()  # what waits is lost as well, and counted
    assert sender.dropped > dropped
    sender.send(b"MESSAGE=late\n")
    read = 0
    while not journal.nothing():
        read += 1
    assert 20_001 <= read + sender.dropped <= 20_002  # one may be on its way


def test_the_stream_decides(tmp_path: Path) -> None:
    """The variable alone proves nothing: a child inherits it with its output sent elsewhere."""
    ours, theirs = (tmp_path / "ours").open("w"), (tmp_path / "theirs").open("w")
    status = os.fstat(ours.fileno())
    environ = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
    assert goes_to_journal(ours, environ)
    assert not goes_to_journal(theirs, environ)
    assert not goes_to_journal(ours, {})
    assert not goes_to_journal(ours, {"JOURNAL_STREAM": "rubbish"})
    assert not goes_to_journal(io.StringIO(), environ)
    ours.close()
    theirs.close()
    assert not goes_to_journal(ours, environ)
