"""`./deploy/try`, as root and as an ordinary user: from nothing to jobs that run, and back.

The copy lies outside /tmp and home folders, and its Python is the machine's: one in root's home
cannot be run by anybody else. The `.venv` is made once for both: the installer is not on trial.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from taskengine.embedded.processes import start_ticks, until
from tests.embedded.test_embedded import modes
from tests.embedded.test_users import need

pytestmark = [pytest.mark.system, pytest.mark.slow]

NAME = "taskengine-try"
HOME = Path(f"/srv/{NAME}")
OURS = Path(__file__).parents[2]
LEFT_OUT = (".git", ".venv", ".taskengine", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info")
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
EXAMPLES = {
    "example-tick",
    "example-shelves",
    "example-flaky",
    "example-report",
    "example-hello",
}
SECONDS = 30  # promised from the installation on


@dataclass(frozen=True)
class Person:
    name: str
    uid: int
    gid: int

    def process(self) -> dict[str, Any]:
        """As this person, with nothing inherited."""
        env = {"PATH": SYSTEM_PATH, "HOME": "/nonexistent", "LANG": "C.UTF-8"}
        return {"user": self.uid, "group": self.gid, "extra_groups": [], "env": env}


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """A copy of the project with its .venv, root's."""
    need(os.geteuid() == 0, "root: sudo ./tests/run --all")
    ready = subprocess.run(["/usr/bin/python3", "-c", "import venv, ensurepip"], check=False)
    need(ready.returncode == 0, "the system's Python: apt-get install -y python3-venv")
    project = HOME / "project"
    try:
        shutil.copytree(OURS, project, ignore=shutil.ignore_patterns(*LEFT_OUT))
        subprocess.run(
            ["bash", "-c", "set -eu; source deploy/venv.sh; make_venv requirements.lock"],
            cwd=project,
            env=os.environ | {"PATH": SYSTEM_PATH},
            check=True,
        )
        yield project
    finally:
        shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture
def user() -> Iterator[Person]:
    need(shutil.which("useradd") is not None, "useradd: apt-get install -y passwd")
    subprocess.run(["useradd", "--no-create-home", "--home-dir", HOME, NAME], check=True)
    try:
        entry = pwd.getpwnam(NAME)
        yield Person(NAME, entry.pw_uid, entry.pw_gid)
    finally:
        subprocess.run(["userdel", NAME], check=True, capture_output=True)


def own(project: Path, person: Person) -> None:
    subprocess.run(["chown", "-R", f"{person.uid}:{person.gid}", project], check=True)


@dataclass
class Try:
    """One run of `./deploy/try`, in a session of its own as under a terminal."""

    project: Path
    person: Person
    seen: dict[int, int | None] = field(default_factory=dict)  # processes: when each began

    def __enter__(self) -> Self:
        self.output = (HOME / f"output-{self.person.name}").open("w+")
        self.process = subprocess.Popen(
            ["./deploy/try", "--port", "0"],
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **self.person.process(),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.output.close()

    def told(self) -> str:
        return Path(self.output.name).read_text()

    def runs(self) -> bool:
        return "TaskEngine runs" in self.told()

    def shown(self) -> bool:
        return "example jobs have succeeded" in self.told()

    def beside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a second terminal."""
        return subprocess.run(
            command,
            cwd=self.project,
            capture_output=True,
            text=True,
            check=False,
            **self.person.process(),
        )

    def another(self) -> subprocess.CompletedProcess[str]:
        return self.beside("./deploy/try")

    def executions(self) -> list[dict[str, Any]]:
        listing = ("executions", "list", "--json", "--limit", "1000")
        done = self.beside(".venv/bin/taskengine", *listing)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def succeeded(self) -> dict[int, str]:
        return {e["id"]: e["job"] for e in self.executions() if e["state"] == "succeeded"}

    def ctrl_c(self) -> int:
        """As the terminal does: to the whole foreground group; the exit status."""
        self.seen = {pid: start_ticks(pid) for pid in family(self.process.pid)}
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(30)

    def left(self) -> set[int]:
        return {pid for pid, began in self.seen.items() if began and start_ticks(pid) == began}


def family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    children: dict[int, set[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, set()).add(int(entry.parent.name))
    found, fresh = {pid}, {pid}
    while fresh:
        fresh = {child for each in fresh for child in children.get(each, ())} - found
        found |= fresh
    return found


def check(project: Path, person: Person) -> None:
    """Two runs: the jobs run, nothing stays behind, the history does."""
    own(project, person)
    before = modes(project, project / "daemon", Path("/var/lib"))
    with Try(project, person) as first:
        assert until(first.shown, SECONDS), first.told()
        refused = first.another()
        assert (refused.returncode, "in use" in refused.stderr) == (1, True), refused.stderr
        kept = first.succeeded()
        assert set(kept.values()) >= EXAMPLES
        assert first.ctrl_c() == 0, first.told()
        assert len(first.seen) > 5  # ourselves, two servers and their children, two watchers
        assert first.left() == set()
    assert not (project / ".taskengine/connection.json").exists()
    with Try(project, person) as second:
        assert until(second.runs, 10), second.told()
        assert second.succeeded().items() >= kept.items()
        assert second.ctrl_c() == 0, second.told()
        assert second.left() == set()
    assert {path: mode for path, mode in modes(*before).items() if path in before} == before


def test_as_an_ordinary_user(installed: Path, user: Person) -> None:
    try:
        check(installed, user)
        assert {path.owner() for path in (installed / ".taskengine").rglob("*")} == {NAME}
    finally:
        shutil.rmtree(installed / ".taskengine", ignore_errors=True)


def test_as_root(installed: Path) -> None:
    data: Path | None = None
    try:
        check(installed, Person("root", 0, 0))
        data = (installed / ".taskengine/data").readlink()
        assert data.parent == Path("/var/lib/taskengine-dev")
    finally:
        if data is not None:
            shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(installed / ".taskengine", ignore_errors=True)
