"""Who the servers run as: ourselves, or, where we are root, a system user of their own.

Postgres refuses to run as root, and nothing that serves should.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskengine.embedded.errors import EmbeddedError

USER = "taskengine-dev"
_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_USERADD = (
    *("--system", "--user-group", "--no-create-home"),
    *("--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"),
)
_ENVIRONMENT = {"PATH": _SYSTEM_PATH, "LANG": "C.UTF-8"}


@dataclass(frozen=True)
class Account:
    """A user id and group id, and whether a process must be switched to it."""

    uid: int
    gid: int
    foreign: bool = False

    def process(self) -> dict[str, Any]:
        """Arguments of `subprocess` for a child with this identity and nothing inherited.

        The environment is ours alone: a stray PGPORT or PGDATA would lead a server astray.
        """
        common: dict[str, Any] = {"env": _ENVIRONMENT, "cwd": "/", "umask": 0o077}
        if self.foreign:
            common |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return common

    def own(self, path: Path) -> None:
        """Give `path`, which this process has just made, to the account."""
        if self.foreign:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def make(self, folder: Path) -> Path:
        """A private folder of the account; one that is there already is left as it is."""
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            return folder
        self.own(folder)
        return folder


def servers_account() -> Account:
    """Ourselves; as root the system user `taskengine-dev`, made when it is missing."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    entry = _entry() or _create()
    return Account(entry.pw_uid, entry.pw_gid, foreign=True)


def _entry() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        return None


def _create() -> pwd.struct_passwd:
    """A numeric id without a name would not do: initdb looks its own user up."""
    useradd = shutil.which("useradd", path=_SYSTEM_PATH)
    if useradd is None:
        raise EmbeddedError("useradd is missing; install it: apt-get install passwd")
    told = subprocess.run(  # noqa: S603
        [useradd, *_USERADD, USER],
        capture_output=True,
        text=True,
        check=False,
    )
    entry = _entry()  # there too when another process made it meanwhile
    if entry is None:
        raise EmbeddedError(f"the user {USER} could not be made: {told.stderr.strip()}")
    return entry
