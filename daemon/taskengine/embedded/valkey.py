"""The private Valkey: on a Unix socket only, never evicting, with an append-only file."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from signal import SIGTERM
from typing import ClassVar

from taskengine.embedded.server import Server, Steps


class Valkey(Server):
    """Keys survive a stop; of a crash's last second some may be missing, as Redis is meant."""

    name: ClassVar = "valkey"
    farewell: ClassVar = SIGTERM
    steps: ClassVar[Steps] = [(SIGTERM, 20.0)]

    @property
    def socket(self) -> Path:
        """The socket itself, for a proxy in between."""
        return self.place.run / "valkey.sock"

    @property
    def url(self) -> str:
        """The address for redis-py; `?db=n` selects one of 16 databases."""
        return f"unix://{self.socket}?db=0"

    def command(self) -> list[str]:
        settings = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.data),
            "appendonly": "yes",
            "appendfsync": "everysec" if self.durable else "no",
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        options = [word for key, value in settings.items() for word in (f"--{key}", value)]
        return [str(self.place.binaries.valkey), *options]

    def prepare(self) -> None:
        self.place.account.make(self.data)

    def ready(self) -> bool:
        """While it still loads its file it answers with an error."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(str(self.socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def wipe(self) -> None:
        """Crash and lose every key, as a server without a disk does."""
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)
