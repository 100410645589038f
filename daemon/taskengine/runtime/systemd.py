"""What systemd and the daemon tell each other, without a library: sd_notify, watchdog, sockets.

Guarantees: telling never blocks and never raises (an unheard word must not stop the work); without
systemd everything here does nothing; the variables are taken out of the environment, so that
children do not speak for the daemon.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

_FIRST_FD = 3
_Environ = MutableMapping[str, str]


class Notifier:
    """Speaks to the service manager over its datagram socket; `None` for an address: to nobody."""

    def __init__(self, address: str | None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address
        self._socket: socket.socket | None = None

    @classmethod
    def from_env(cls, environ: _Environ = os.environ) -> Notifier:
        """To $NOTIFY_SOCKET (a path, or abstract with "@"), which is taken out."""
        return cls(environ.pop("NOTIFY_SOCKET", None))

    def ready(self, status: str = "") -> None:
        """Started, or reloaded: others may build on us."""
        self._send("READY=1", *self._worded(status))

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send(*self._worded(text))

    def reloading(self) -> None:
        """A reload begins; `ready()` ends it. Without the time `systemctl reload` may hang."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now}")

    def stopping(self, status: str = "") -> None:
        self._send("STOPPING=1", *self._worded(status))

    def watchdog(self) -> None:
        """Every loop makes progress: do not kill us."""
        self._send("WATCHDOG=1")

    def extend_timeout(self, seconds: float) -> None:
        """Starting or stopping goes on: wait at least so much longer from now."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(max(0.0, seconds) * 1_000_000)}")

    def _worded(self, status: str) -> tuple[str, ...]:
        return (f"STATUS={' '.join(status.split())}",) if status else ()

    def _send(self, *lines: str) -> None:
        if not self._address or not lines:
            return
        message = "\n".join(lines).encode("utf-8", "replace")
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            self._socket.sendto(message, self._address)
        except (OSError, ValueError):
            return

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def control_socket(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where `taskengine ctl` asks the daemon: in the folder that lives as long as the unit
    (`RuntimeDirectory=`), the first where it has several."""
    first = environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    return Path(first) / "control.sock" if first else None


def watchdog_interval(environ: _Environ = os.environ) -> float | None:
    """Seconds between two `watchdog()` (a third of WatchdogSec); None where nobody waits for it."""
    usec, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
    if not usec.isdecimal() or int(usec) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 1_000_000 / 3


def listen_fds(environ: _Environ = os.environ) -> list[tuple[str, int]]:
    """The sockets that systemd opened for us: (FileDescriptorName, descriptor), in its order."""
    pid, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    descriptors = range(_FIRST_FD, _FIRST_FD + int(count))
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    padded = [*names, *[""] * len(descriptors)]
    return [(padded[index] or "unknown", fd) for index, fd in enumerate(descriptors)]
