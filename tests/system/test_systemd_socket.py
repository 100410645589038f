"""The port as a unit of its own: it outlives the daemon, and is closed once systemd gives that up."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.system.host import Host, with_daemon

pytestmark = [pytest.mark.system, pytest.mark.slow]

SOCKET, SERVICE = "taskengine-http.socket", "taskengine.service"
CONFIG = "/etc/taskengine/config.toml"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with with_daemon() as host:
        yield host


@pytest.fixture(autouse=True)
def running(host: Host) -> None:
    """Each test begins with a daemon that was started anew."""
    host.say("systemctl", "stop", SOCKET, SERVICE)
    host.run("systemctl", "reset-failed", SOCKET, SERVICE)
    host.say("systemctl", "start", SERVICE)


def active(host: Host, unit: str) -> str:
    return host.run("systemctl", "is-active", unit).stdout.strip()


def ask(port: int, ended: threading.Event, answered: list[int], lost: list[str]) -> None:
    """Over one connection for as long as the server says that it keeps it; nothing is tried again."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not ended.is_set():
        try:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            answer.read()
            answered.append(answer.status)
        except (OSError, http.client.HTTPException) as error:
            lost.append(repr(error))
            connection.close()
        time.sleep(0.02)
    connection.close()


def test_restarts_lose_no_request_on_connections_that_are_kept(host: Host) -> None:
    ended, answered, lost = threading.Event(), list[int](), list[str]()
    arguments = (host.web, ended, answered, lost)
    askers = [threading.Thread(target=ask, args=arguments) for _ in range(4)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(5):
            host.say("systemctl", "restart", SERVICE)
    finally:
        ended.set()
        for asker in askers:
            asker.join()
    assert lost == []
    assert set(answered) == {200}
    assert len(answered) > 5 * len(askers)


def test_a_request_that_comes_while_it_starts_is_answered(host: Host) -> None:
    host.say("systemctl", "stop", SERVICE)
    answer = httpx.get(f"http://127.0.0.1:{host.web}/healthz", timeout=60)
    assert answer.status_code == 200
    host.becomes(lambda: active(host, SERVICE) == "active")


def test_who_starts_the_service_opens_the_port_first(host: Host) -> None:
    host.say("systemctl", "stop", SOCKET, SERVICE)
    host.say("systemctl", "start", SERVICE)
    assert active(host, SOCKET) == "active"
    host.say("systemctl", "stop", SERVICE)
    with socket.create_connection(("127.0.0.1", host.web)):
        host.becomes(lambda: active(host, SERVICE) == "active")


def test_once_it_is_given_up_who_asks_is_refused_and_starts_nothing(host: Host) -> None:
    text = host.say("cat", CONFIG)
    assert text.count('level = "info"') == 1
    host.writes(CONFIG, text.replace('level = "info"', 'level = "loud"'))
    try:
        before = host.say("journalctl", "-u", SERVICE, "-o", "cat").count("logs.level")
        assert host.run("systemctl", "restart", SERVICE).returncode == 1
        host.becomes(lambda: active(host, SOCKET) == "inactive")
        for _ in range(5):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", host.web)).close()
        told = host.say("journalctl", "-u", SERVICE, "-o", "cat").count("logs.level")
        assert (told - before, active(host, SERVICE)) == (1, "failed")
    finally:
        host.writes(CONFIG, text)
    host.say("systemctl", "start", SERVICE)
    assert active(host, SOCKET) == "active"
    assert httpx.get(f"http://127.0.0.1:{host.web}/readyz", timeout=60).status_code == 200
