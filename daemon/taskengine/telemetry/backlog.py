"""Log entries that their reader could not take at once, kept for it within bounds.

Guarantees: adding never blocks; order is kept; a reader that is slow loses nothing until the bounds
are reached, one that is stuck costs no more than them, and what is beyond is counted in `dropped`.
The thread that hands on exists only while there is something to be handed on, and never keeps the
process alive.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

_ENTRIES = 5000
_BYTES = 8 << 20


class Backlog:
    """`send(entry)` may wait a while; False: there was no room, so the same entry again."""

    def __init__(self, send: Callable[[bytes], bool]) -> None:
        self.dropped = 0
        self.lock = threading.Condition()  # re-entrant: a collected object may log while we send
        self._send = send
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, entry: bytes) -> None:
        """Keep it, if there is room."""
        with self.lock:
            full = len(self._waiting) >= _ENTRIES or self._bytes + len(entry) > _BYTES
            if full or self._closed:
                self.dropped += 1
                return
            self._waiting.append(entry)
            self._bytes += len(entry)
            self._start()

    def flush(self, seconds: float) -> None:
        """Wait, at most so long, until all has been handed on."""
        with self.lock:
            self.lock.wait_for(lambda: not self._waiting, seconds)

    def close(self) -> None:
        """What still waits is lost, and counted."""
        with self.lock:
            self._closed = True
            self.dropped += len(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            self.lock.notify_all()

    def rests(self, seconds: float) -> bool:
        """Whether nothing is being handed on, waiting at most so long for that."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    def _start(self) -> None:
        """A thread, where there is none (after a fork there is none either)."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._thread = threading.Thread(target=self._hand_on, name="log-backlog", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter ends: the next one tries again
            self._thread = None

    def _hand_on(self) -> None:
        while (entry := self._first()) is not None:
            try:
                if not self._send(entry):
                    continue
                lost = 0
            except (OSError, ValueError):
                lost = 1
            self._done(entry, lost)

    def _first(self) -> bytes | None:
        with self.lock:
            if self._waiting:
                return self._waiting[0]
            self._thread = None
            self.lock.notify_all()
            return None

    def _done(self, entry: bytes, lost: int) -> None:
        with self.lock:
            if self._waiting and self._waiting[0] is entry:
                self._waiting.popleft()
                self._bytes -= len(entry)
                self.dropped += lost
