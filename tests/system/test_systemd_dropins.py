"""The drop-ins for closed hosts: what shall be out of reach is, and everything else still works."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.embedded.test_users import need
from tests.system.host import DSN, REDIS, Host, with_daemon

pytestmark = [pytest.mark.system, pytest.mark.slow]

UNITS = ("taskengine-http.socket", "taskengine.service")


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with with_daemon() as host:
        yield host


@contextmanager
def hardened(host: Host, name: str) -> Iterator[None]:
    """The daemon, started anew with this drop-in."""
    dropin = f"/etc/systemd/system/taskengine.service.d/{name}"
    host.say("systemctl", "stop", *UNITS)
    host.writes(dropin, (host.project / "systemd/dropins" / name).read_text())
    host.say("systemctl", "daemon-reload")
    host.say("systemctl", "start", "taskengine")
    try:
        yield
    finally:
        host.say("rm", dropin)
        host.say("systemctl", "daemon-reload")


def result(host: Host, job: str, payload: dict[str, Any]) -> Any:
    """What the job says, once it has succeeded."""
    told = host.say("taskengine", "dispatch", job, "--payload", json.dumps(payload), "--json")
    number = json.loads(told)["execution_id"]
    host.becomes(lambda: host.states([number]) == {("succeeded", 1)})
    return host.executions()[number]["result"]


@contextmanager
def elsewhere() -> Iterator[dict[str, Any]]:
    """An address that is none of loopback's, and answers."""
    told = subprocess.run(["hostname", "-I"], text=True, capture_output=True, check=True).stdout
    ours = [word for word in told.split() if "." in word]
    need(bool(ours), "an IPv4 address besides 127.0.0.1")
    with socket.create_server((ours[0], 0)) as server:
        yield {"host": ours[0], "port": server.getsockname()[1]}


def works(host: Host) -> None:
    """Jobs run by threads, processes and programs, and HTTP is served."""
    assert result(host, "hands", {}) == 3
    assert httpx.get(f"http://127.0.0.1:{host.web}/readyz", timeout=60).json()["redis"] == "up"


def test_localhost_only(host: Host) -> None:
    local = {"host": "127.0.0.1", "port": host.postgres}
    with elsewhere() as address:
        host.say("systemctl", "start", "taskengine")
        assert result(host, "reach", address) == "reached"
        with hardened(host, "60-localhost-only.conf"):
            works(host)
            assert result(host, "reach", local) == "reached"
            assert result(host, "reach", address) == "TimeoutError"


def test_no_network(host: Host) -> None:
    """Both stores by their sockets; not even this host's loopback is in reach."""
    credentials = "/etc/taskengine/credentials"
    assert DSN in host.say("cat", f"{credentials}/postgres_dsn")
    host.say("sh", "-c", f"printf %s {REDIS} >{credentials}/redis_url")
    local = {"host": "127.0.0.1", "port": host.postgres}
    with elsewhere() as address, hardened(host, "70-no-network.conf"):
        works(host)
        assert {result(host, "reach", each) for each in (local, address)} == {"OSError"}
