"""Asks a daemon by its control socket (see `services.control`), and shows its answers."""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from taskengine.cli import out
from taskengine.cli.failure import TEMPFAIL, NotFound, Refused
from taskengine.cli.words import clean, instant, plural, span
from taskengine.config import find_config
from taskengine.config.layers import merge
from taskengine.config.root import layers_of
from taskengine.errors import ConfigError
from taskengine.runtime.systemd import control_socket

_SECONDS = 30.0
_POLL = 0.2
_RUNNING = [
    out.Column[dict[str, Any]]("id", lambda each: each["id"], right=True),
    out.Column[dict[str, Any]]("task", lambda each: each["task"]),
    out.Column[dict[str, Any]]("queue", lambda each: each["queue"]),
    out.Column[dict[str, Any]]("attempt", lambda each: each["attempt"], right=True),
    out.Column[dict[str, Any]]("for", lambda each: span(each["seconds"]), right=True),
]


def place(given: Path | None, instance: str, config: Path | None) -> Path:
    """Where the socket of the daemon that is meant lies."""
    if given is not None:
        return given
    if instance:
        return Path(f"/run/taskengine-{instance}/control.sock")
    return _configured(config) or control_socket() or Path("/run/taskengine/control.sock")


def _configured(config: Path | None) -> Path | None:
    """What the configuration says. It may be bad otherwise: that is for the daemon to judge."""
    try:
        values = merge(layers_of(find_config(Path.cwd(), config), os.environ))
        return Path(values["workers"]["control_socket"])
    except (ConfigError, KeyError, TypeError):
        return None


def ask(path: Path, verb: str) -> dict[str, Any]:
    """Its answer. `NotFound` where no daemon listens, `Refused` where we may not ask it."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_SECONDS)
        try:
            asking.connect(os.fspath(path))
            asking.sendall(json.dumps({"verb": verb}).encode() + b"\n")
            with asking.makefile("rb") as answer:
                line = answer.readline()
        except PermissionError:
            raise Refused(f"{path} is its owner's: ask as root or as the daemon's user") from None
        except TimeoutError:
            raise TimeoutError(f"the daemon at {path} does not answer") from None
        except (OSError, ValueError) as error:
            raise NotFound(f"no daemon listens at {path}: {error}") from None
    if not line:
        raise NotFound(f"the daemon at {path} ended before it answered")
    found: dict[str, Any] = json.loads(line)
    return found


def show(status: dict[str, Any], *, as_json: bool) -> None:
    """A line and what runs, or the object."""
    if as_json:
        out.line(status)
        return
    name, version = clean(status["name"]), clean(status["version"])
    state, words = clean(status["state"]), clean(status["status"])
    since = datetime.fromisoformat(status["since"])
    who = f"worker {status['worker_id']}, {version}, since {instant(since)}"
    out.put(f"{name} ({who}) · {state} · {words}")
    if status["running"]:
        out.table(_RUNNING, sorted(status["running"], key=lambda each: -each["seconds"]))


def show_reload(answer: dict[str, Any], *, as_json: bool) -> None:
    """What was taken in and what was not. `ConfigError` where the daemon has refused the file."""
    if not answer["ok"]:
        raise ConfigError(answer["error"])
    if as_json:
        out.line(answer)
        return
    changes = [f"{key} = {value}" for key, value in answer["changes"].items()]
    out.put(clean("taken in: " + (", ".join(changes) or "nothing has changed")))
    if answer["restart_needed"]:
        out.note(f"needs a restart: {', '.join(answer['restart_needed'])}")


def drain(path: Path) -> None:
    """Ask for it."""
    left = ask(path, "drain")["left"]
    out.note(f"takes no new work until it is restarted; {plural(left, 'execution')} left")


def wait(path: Path, timeout: float | None) -> None:
    """Until nothing runs there, at most `timeout` seconds (None: for ever)."""
    began = time.monotonic()
    while not (found := _drained(path))["idle"]:
        if timeout is not None and time.monotonic() - began >= timeout:
            out.note(f"{plural(found['left'], 'execution')} left after {timeout:g} s")
            raise typer.Exit(TEMPFAIL)
        time.sleep(_POLL)
    out.note("drained: nothing runs")


def _drained(path: Path) -> dict[str, Any]:
    """How it stands; `Refused` where another daemon has taken its place, which does take work."""
    found = ask(path, "status")
    if found["state"] not in ("draining", "stopping"):
        raise Refused(f"the daemon at {path} was restarted meanwhile: it takes new work")
    return found
