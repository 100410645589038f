"""What is said to systemd arrives as it must be said, and an unheard word disturbs nobody."""

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskengine.runtime.systemd import Notifier, control_socket, listen_fds, watchdog_interval


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A socket as systemd's, and what $NOTIFY_SOCKET would say."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@te-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name[1:] if name.startswith("@") else name)
        listening.setblocking(False)
        yield listening, name


def test_words_arrive(manager: tuple[socket.socket, str]) -> None:
    listening, name = manager
    environ = {"NOTIFY_SOCKET": name}
    notifier = Notifier.from_env(environ)
    assert environ == {}, "children do not inherit it"
    said: dict[Callable[[], None], str] = {
        lambda: notifier.ready("12 running"): "READY=1\nSTATUS=12 running",
        lambda: notifier.status("a\nREADY=1"): "STATUS=a READY=1",
        notifier.stopping: "STOPPING=1",
        notifier.watchdog: "WATCHDOG=1",
        lambda: notifier.extend_timeout(1.5): "EXTEND_TIMEOUT_USEC=1500000",
    }
    for say, expected in said.items():
        say()
        assert listening.recv(4096).decode() == expected
    notifier.reloading()
    first, second = listening.recv(4096).decode().split("\n")
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) > 0
    notifier.close()


def test_a_manager_that_does_not_read_blocks_nobody(manager: tuple[socket.socket, str]) -> None:
    notifier = Notifier(manager[1])
    for _ in range(5000):
        notifier.watchdog()
    notifier.close()


@pytest.mark.parametrize("address", [None, "", "/nowhere/at/all", "x\0y", "@" + "x" * 300])
def test_nobody_to_tell(address: str | None) -> None:
    notifier = Notifier(address)
    notifier.ready("x")
    notifier.status("")
    notifier.close()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_watchdog_interval(environ: dict[str, str], seconds: float | None) -> None:
    assert watchdog_interval(environ) == seconds
    assert environ == {}


def test_sockets_for_another_process_are_not_ours() -> None:
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http"}
    assert listen_fds(environ) == []
    assert environ == {}


def test_sockets_come_with_their_names_and_are_not_inherited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[int] = []
    monkeypatch.setattr(os, "set_inheritable", lambda fd, on: kept.append(fd) if not on else None)
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "3", "LISTEN_FDNAMES": "http:admin"}
    assert listen_fds(environ) == [("http", 3), ("admin", 4), ("unknown", 5)]
    assert kept == [3, 4, 5]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("", None),
        ("/run/one", Path("/run/one/control.sock")),
        ("/run/one:/run/two", Path("/run/one/control.sock")),
    ],
)
def test_the_control_socket_is_in_the_first_runtime_directory(
    value: str, path: Path | None
) -> None:
    assert control_socket({"RUNTIME_DIRECTORY": value}) == path
    assert control_socket({}) is None
