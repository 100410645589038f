"""The private Postgres: made once by initdb, reached over its Unix socket only."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from signal import SIGINT, SIGQUIT
from typing import ClassVar

from taskengine.embedded.errors import EmbeddedError
from taskengine.embedded.server import Server, Steps

NAME = "taskengine"  # of the role and of the database
PORT = 5432  # only a part of the socket's name
_INITDB = (
    *("--username", NAME, "--encoding", "UTF8", "--locale", "C", "--no-instructions"),
    *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
    *("--auth-local", "trust", "--auth-host", "reject"),
)
_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_VOLATILE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Postgres(Server):
    """Whoever can enter the socket's private folder is trusted; over TCP nobody gets in."""

    name: ClassVar = "postgres"
    farewell: ClassVar = SIGINT  # fast: ends sessions, then a checkpoint
    steps: ClassVar[Steps] = [(SIGINT, 30.0), (SIGQUIT, 10.0)]

    @property
    def socket(self) -> Path:
        """The socket itself, for a proxy in between."""
        return self.place.run / f".s.PGSQL.{PORT}"

    @property
    def dsn(self) -> str:
        """The address for asyncpg and psql."""
        return f"postgresql://{NAME}@/{NAME}?host={self.place.run}&port={PORT}"

    def command(self) -> list[str]:
        settings = _SETTINGS | {"unix_socket_directories": f'"{self.place.run}"'}
        settings |= {} if self.durable else _VOLATILE
        options = [f"--{key}={value}" for key, value in settings.items()]
        return [str(self.place.binaries.postgres), "-D", str(self.data), *options]

    def prepare(self) -> None:
        """Complete or not at all: made aside and then renamed."""
        if self.data.is_dir():
            # Nothing runs in here, or we were not called: a pid in an old file is another's by now.
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            return
        aside = self.data.with_suffix(".new")
        shutil.rmtree(aside, ignore_errors=True)
        sync = [] if self.durable else ["--no-sync"]
        self._tool([str(self.place.binaries.initdb), "-D", str(aside), *_INITDB, *sync])
        single = [str(self.place.binaries.postgres), "--single", "-D", str(aside), "postgres"]
        self._tool(single, f"CREATE DATABASE {NAME}\n")
        aside.rename(self.data)

    def ready(self) -> bool:
        """As pg_ctl does: the pid file is this process's and says so."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def stop_immediately(self) -> None:
        """Without a checkpoint: the next start has to recover from the log."""
        self.stop([(SIGQUIT, 10.0)])

    def _tool(self, command: list[str], words: str = "") -> None:
        done = subprocess.run(  # noqa: S603
            command,
            input=words,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
            **self.place.account.process(),
        )
        if done.returncode != 0:
            raise EmbeddedError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
