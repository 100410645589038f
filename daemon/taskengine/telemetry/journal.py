"""systemd's journal, spoken to in its own protocol: an entry is a set of fields, not a line.

Guarantees: `send` never blocks and never raises. What the journal cannot take at once waits in a
bounded backlog, in order, and is handed on by a thread; what cannot be kept is counted in
`dropped`. An entry that no datagram holds goes as a sealed memory file.
https://systemd.io/JOURNAL_NATIVE_PROTOCOL/
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterable, Mapping
from typing import TextIO

from taskengine.telemetry.backlog import Backlog

SOCKET = "/run/systemd/journal/socket"
_BUFFER = 8 << 20  # as systemd's own library asks for; the kernel may give less
_TRY_SECONDS = 1
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


def goes_to_journal(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the stream is the one that systemd connected to the journal, and not merely a child
    of such a process with its output sent elsewhere."""
    stated = environ.get("JOURNAL_STREAM")
    if not stated:
        return False
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return stated == f"{found.st_dev}:{found.st_ino}"


def encode(fields: Iterable[tuple[str, str]]) -> bytes:
    """The entry as the journal reads it. Names are taken as they are."""
    return b"".join(
        _field(name.encode(), text.encode("utf-8", "backslashreplace")) for name, text in fields
    )


def _field(name: bytes, value: bytes) -> bytes:
    if b"\n" in value:  # else what follows the line break would be a field of its own
        return b"%b\n%b%b\n" % (name, struct.pack("<Q", len(value)), value)
    return b"%b=%b\n" % (name, value)


class Journal:
    """The journal at this address."""

    def __init__(self, address: str = SOCKET) -> None:
        self._address = address
        self._socket = _open()
        self._socket.setblocking(False)
        self._backlog = Backlog(self._send_patiently)
        self._unsent = 0

    @property
    def dropped(self) -> int:
        """How many entries were lost."""
        return self._unsent + self._backlog.dropped

    def send(self, entry: bytes) -> None:
        """Have the journal keep this entry: now, or as soon as it takes one."""
        with self._backlog.lock:
            if self._backlog:
                self._backlog.add(entry)
                return
            try:
                self._transmit(self._socket, entry)
            except BlockingIOError:
                self._backlog.add(entry)
            except (OSError, ValueError):  # no journal, no memory, closed
                self._unsent += 1

    def flush(self, seconds: float = 1.0) -> None:
        """Wait, at most so long, until nothing waits to be sent."""
        self._backlog.flush(seconds)

    def close(self) -> None:
        """Entries that come later are counted as dropped."""
        self._backlog.close()
        self._socket.close()

    def _send_patiently(self, entry: bytes) -> bool:
        """In the backlog's thread: wait a while for room; whether there was any."""
        with _open() as patient:
            seconds = struct.pack("@ll", _TRY_SECONDS, 0)
            patient.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
            try:
                self._transmit(patient, entry)
            except BlockingIOError:
                return False
        return True

    def _transmit(self, sender: socket.socket, entry: bytes) -> None:
        try:
            sender.sendto(entry, self._address)
        except OSError as error:
            if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS):
                raise
            self._transmit_file(sender, entry)

    def _transmit_file(self, sender: socket.socket, entry: bytes) -> None:
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        with os.fdopen(os.memfd_create("taskengine-journal", flags), "wb", buffering=0) as file:
            rest = memoryview(entry)
            while rest:
                rest = rest[file.write(rest) :]
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("@i", file.fileno()))
            sender.sendmsg([], [rights], 0, self._address)


def _open() -> socket.socket:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    return opened
