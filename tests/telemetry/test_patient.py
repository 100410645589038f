"""A reader that is slow, stuck or gone holds up nobody, and what it gets is whole and in order."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from taskengine.telemetry import backlog, patient
from taskengine.telemetry.patient import PatientWriter

Ends = tuple[int, int]
"""Descriptors: to be read, to be written."""


def _socket() -> Ends:
    reading, writing = socket.socketpair()
    return reading.detach(), writing.detach()


def _terminal() -> Ends:
    reading, writing = pty.openpty()
    subprocess.run(["stty", "raw", "-echo"], stdin=writing, check=True)
    return reading, writing


@pytest.fixture(params=[os.pipe, _socket, _terminal], ids=["pipe", "socket", "terminal"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    make: Callable[[], Ends] = request.param
    reading, writing = make()
    with ExitStack() as stack:
        stack.callback(os.close, reading)
        stack.callback(os.close, writing)
        yield reading, writing


@pytest.fixture(params=[True, False], ids=["opened anew", "by a thread"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the descriptor cannot be opened once more."""
    if not request.param:
        monkeypatch.setattr(patient, "_outlet", _slow_outlet)


def _slow_outlet(descriptor: int) -> patient._Outlet:
    return patient._plain(os.dup(descriptor))._replace(quick=False)


def lines(first: int, last: int) -> list[bytes]:
    return [b"%d %s\n" % (n, b"x" * (n % 7 * 1000)) for n in range(first, last)]


def read(descriptor: int, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += os.read(descriptor, size - len(found))
    return found


@pytest.mark.usefixtures("either")
def test_nobody_reads_for_a_while_then_all_of_it_comes_in_order(ends: Ends) -> None:
    reading, writing = ends
    told = lines(0, 1000)
    with closing(PatientWriter(writing)) as writer:
        for line in told:
            writer.write(line)
        assert writer.waits
        assert os.get_blocking(writing)
        assert read(reading, sum(map(len, told))) == b"".join(told)
        writer.flush(20)
        assert (writer.waits, writer.dropped) == (False, 0)
        writer.write(b"the last\n")
        assert read(reading, 9) == b"the last\n"


def test_nobody_reads_at_all_what_is_kept_is_bounded_and_the_rest_counted(ends: Ends) -> None:
    reading, writing = ends
    with closing(PatientWriter(writing)) as writer:
        for n in range(3 * backlog._ENTRIES):
            writer.write(b"%d %s\n" % (n, b"x" * 100))
        kept = 3 * backlog._ENTRIES - writer.dropped
        assert backlog._ENTRIES <= kept < 3 * backlog._ENTRIES
        expected = b"".join(b"%d %s\n" % (n, b"x" * 100) for n in range(kept))
        assert read(reading, len(expected)) == expected


def test_a_reader_that_is_gone_is_an_error_at_once() -> None:
    reading, writing = os.pipe()
    with closing(PatientWriter(writing)) as writer:
        os.close(writing)
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            writer.write(b"nobody\n")


def test_a_reader_that_goes_while_lines_wait_loses_them_and_they_are_counted() -> None:
    reading, writing = os.pipe()
    with closing(PatientWriter(writing)) as writer:
        for line in lines(0, 200):
            writer.write(line)
        os.close(reading)
        writer.flush(20)
        assert not writer.waits
        assert writer.dropped
    os.close(writing)


def test_a_file_that_others_write_to_is_continued(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file, closing(PatientWriter(file.fileno())) as writer:
        for n in range(3):
            os.write(file.fileno(), b"theirs\n")
            writer.write(b"ours %d\n" % n)
    assert (tmp_path / "log").read_bytes() == b"".join(b"theirs\nours %d\n" % n for n in range(3))


def test_several_threads_write_whole_lines() -> None:
    reading, writing = os.pipe()
    with closing(PatientWriter(writing)) as writer:

        def write(name: bytes) -> None:
            for n in range(300):
                writer.write(b"%s %d %s\n" % (name, n, name * 1000))

        threads = [threading.Thread(target=write, args=(name,)) for name in (b"a", b"b", b"c")]
        for thread in threads:
            thread.start()
        found = read(reading, 3 * sum(len(b"a %d %s\n" % (n, b"a" * 1000)) for n in range(300)))
        for thread in threads:
            thread.join()
    for name in (b"a", b"b", b"c"):
        theirs = [line for line in found.splitlines() if line.startswith(name)]
        assert theirs == [b"%s %d %s" % (name, n, name * 1000) for n in range(300)]
    os.close(reading)
    os.close(writing)


def test_the_end_of_the_process_waits_for_no_reader() -> None:
    """Its log to a pipe that nobody reads: it ends all the same, by Python's own way."""
    code = (
        "import logging, sys\n"
        "from taskengine.telemetry.logs import set_up\n"
        "set_up('info', 'json', sys.stderr)\n"
        "for n in range(20000): logging.info('%d ' + 'x' * 100, n)\n"
    )
    reading, writing = os.pipe()
    done = subprocess.run([sys.executable, "-c", code], stderr=writing, timeout=60, check=False)
    assert done.returncode == 0
    os.close(reading)
    os.close(writing)
