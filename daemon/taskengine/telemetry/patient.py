"""Lines to a descriptor whose reader may be slow, stuck or gone.

Guarantees: `write` never blocks; order is kept, and no line is torn by another of ours; what the
reader does not take at once waits in a bounded backlog, and what cannot be kept is counted. The
descriptor itself is shared with others and stays as it is: a pipe or a terminal is opened once more,
without blocking, and a socket is asked so with each call. Where neither can be had a thread writes.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from taskengine.telemetry.backlog import Backlog

_TRY_MILLISECONDS = 1000


class _Outlet(NamedTuple):
    """A descriptor of our own; `put` takes some bytes, and never waits if it is `quick`."""

    descriptor: int
    put: Callable[[memoryview], int]
    close: Callable[[], None]
    quick: bool = True


class PatientWriter:
    """Writes whole lines; the caller's descriptor may be closed."""

    def __init__(self, descriptor: int) -> None:
        self._outlet = _outlet(descriptor)
        self._backlog = Backlog(self._put_patiently)
        self._sent = 0  # bytes of the backlog's first line

    @property
    def dropped(self) -> int:
        """How many lines were not kept."""
        return self._backlog.dropped

    @property
    def waits(self) -> bool:
        """Whether lines wait for their reader."""
        return bool(self._backlog)

    def write(self, line: bytes) -> None:
        """Now, or as soon as there is room. OSError where nobody can read it any more."""
        with self._backlog.lock:
            if self._backlog or not self._outlet.quick:
                self._backlog.add(line)
                return
            sent = self._put(line)
            if sent < len(line):
                self._sent = sent  # nothing waits, so it is not the thread's now
                self._backlog.add(line)

    def flush(self, seconds: float = 1.0) -> None:
        """Wait, at most so long, until nothing waits."""
        self._backlog.flush(seconds)

    def close(self) -> None:
        """Lines that come later are lost."""
        self._backlog.close()
        if self._backlog.rests(2 * _TRY_MILLISECONDS / 1000):
            self._outlet.close()

    def _put(self, line: bytes) -> int:
        try:
            return self._outlet.put(memoryview(line))
        except BlockingIOError:
            return 0

    def _put_patiently(self, line: bytes) -> bool:
        """In the backlog's thread: wait a while for room; whether the line is whole now."""
        if self._outlet.quick:
            poll = select.poll()
            poll.register(self._outlet.descriptor, select.POLLOUT)
            poll.poll(_TRY_MILLISECONDS)
        begun, self._sent = self._sent, 0
        sent = begun + self._put(line[begun:])
        self._sent = sent if sent < len(line) else 0
        return sent == len(line)


def _outlet(descriptor: int) -> _Outlet:
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISSOCK(kind):
        sender = socket.socket(fileno=os.dup(descriptor))
        put = partial(_send, sender)
        return _Outlet(sender.fileno(), put, sender.close)
    if stat.S_ISREG(kind):  # never waits, and opened again it would begin at another place
        return _plain(os.dup(descriptor))
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return _plain(os.open(f"/proc/self/fd/{descriptor}", flags))
    except OSError:  # a terminal of another user's, no /proc
        return _plain(os.dup(descriptor))._replace(quick=False)


def _send(sender: socket.socket, data: memoryview) -> int:
    return sender.send(data, socket.MSG_DONTWAIT)


def _plain(own: int) -> _Outlet:
    return _Outlet(own, lambda data: os.write(own, data), lambda: os.close(own))
