"""The servers of a guarded installation: their own, since roles belong to a whole server."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskengine.embedded import EmbeddedServers
from taskengine.embedded.binaries import installed
from taskengine.embedded.processes import until
from tests.deploy.access.guarded import DEPLOY, Guarded

PASSWORD = "a-password-of-the-test"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="taskengine-guarded-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def valkey_socket(folder: Path) -> Iterator[Path]:
    """A Valkey that read `deploy/redis/`, with nothing of its own but where it is."""
    users = (DEPLOY / "redis/users.acl").read_text()
    assert users.count("CHANGE-ME") == 1
    (folder / "users.acl").write_text(users.replace("CHANGE-ME", PASSWORD))
    path = folder / "valkey.sock"
    where = {"port": "0", "unixsocket": str(path), "dir": str(folder), "aclfile": "users.acl"}
    options = [word for key, value in where.items() for word in (f"--{key}", value)]
    log = folder / "valkey.log"
    with log.open("wb") as out:
        command = [str(installed().valkey), str(DEPLOY / "redis/taskengine.conf"), *options]
        server = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        assert until(path.exists, 20), log.read_text()
        yield path
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture(scope="module")
def guarded(folder: Path, valkey_socket: Path) -> Iterator[Guarded]:
    """Set up as `deploy/postgres/` and `deploy/redis/` say."""
    with EmbeddedServers(folder, durable=False) as embedded:
        place = embedded.postgres.dsn.partition("?")[2]
        redis_url = f"unix://taskengine:{PASSWORD}@{valkey_socket}"
        guarded = Guarded(folder, place, redis_url)
        asyncio.run(guarded.set_up())
        yield guarded
        embedded.remove()
