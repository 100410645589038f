"""Where the private servers keep what: a pure question of paths, owners and lengths.

    <project>/.taskengine/         ours: lock, connection.json, logs
    <project>/.taskengine/data     the servers': postgres/, valkey/, run/ (their sockets)

As root, `data` is a link to a folder below /var/lib, since the servers' user can enter neither
root's home nor, often, the project. Nothing that was there before changes its owner or mode.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from taskengine.embedded.account import Account, servers_account
from taskengine.embedded.binaries import Binaries, copied, installed
from taskengine.embedded.errors import EmbeddedError

STATE = ".taskengine"
ROOTS_DATA = Path("/var/lib/taskengine-dev")
# A socket's whole path has room for 107 bytes, of which ours use 17 for the name; and an address
# is taken apart at commas, by some clients after unquoting it.
_FIT_FOR_SOCKETS = re.compile(r"[A-Za-z0-9/._-]{1,88}")


@dataclass(frozen=True)
class Place:
    """Everything the two servers need to know about where and as whom they run."""

    state: Path
    data: Path
    run: Path
    account: Account
    binaries: Binaries


def state_of(folder: Path) -> Path:
    """The folder of ours in a project."""
    return folder.resolve() / STATE


def prepare(folder: Path) -> Place:
    """Make what is missing, and say where everything is."""
    state, account = state_of(folder), servers_account()
    if account.foreign:
        data = _roots_data(state, account)
        binaries = copied(installed(), data, account)
        return Place(state, data, account.make(data / "run"), account, binaries)
    data = account.make(state / "data")
    return Place(state, data, _socket_folder(data), account, installed())


def _roots_data(state: Path, account: Account) -> Path:
    """The folder below /var/lib, made and named by the link `data`."""
    link, data = state / "data", ROOTS_DATA / _digest(state.parent)
    if link.exists() and not link.is_symlink():
        raise EmbeddedError(f"{link} was made by an ordinary user; go on as that user, not as root")
    ROOTS_DATA.mkdir(mode=0o755, exist_ok=True)
    account.make(data)
    if not link.is_symlink() or link.readlink() != data:  # a project that was copied or moved
        link.unlink(missing_ok=True)
        link.symlink_to(data)
    return data


def _socket_folder(data: Path) -> Path:
    """Beside the data, or somewhere plainer when the project's path does not suit an address."""
    name = f"taskengine-{os.geteuid()}-{_digest(data)}"
    candidates = [data / "run"]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        candidates.append(Path(runtime) / name)
    candidates.append(Path("/tmp") / name)  # noqa: S108 - checked to be ours alone
    return _private(next(p for p in candidates if _FIT_FOR_SOCKETS.fullmatch(os.fspath(p))))


def _private(folder: Path) -> Path:
    """The folder, ours and closed to others, or an error: anybody can make folders in /tmp."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise EmbeddedError(f"{folder} is not a private folder of ours; remove it")
    return folder


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
