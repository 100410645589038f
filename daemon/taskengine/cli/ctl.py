"""`taskengine ctl`: one daemon of this host, asked by its control socket; no store is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taskengine.cli.options import Config, Json, new_app

app = new_app(
    "One daemon of this host: how it stands, take in its configuration, take no new work."
)

_Socket = Annotated[
    Path | None,
    typer.Option(
        "--socket",
        metavar="PATH",
        help="Its control socket; else the configuration's, else in $RUNTIME_DIRECTORY, else in "
        "/run/taskengine.",
    ),
]
_Instance = Annotated[
    str, typer.Option("--instance", metavar="NAME", help="The daemon taskengine@NAME.")
]
_Wait = Annotated[bool, typer.Option("--wait", help="Return when nothing runs there any more.")]
_Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=0, help="Wait so many seconds at most; exit status 75: some run."
    ),
]


@app.command()
def status(
    socket: _Socket = None, instance: _Instance = "", config: Config = None, as_json: Json = False
) -> None:
    """What this daemon does now: its state, its slots, what runs; --json: each loop's last turn, too."""
    from taskengine.cli import control

    control.show(control.ask(control.place(socket, instance, config), "status"), as_json=as_json)


@app.command()
def reload(
    socket: _Socket = None, instance: _Instance = "", config: Config = None, as_json: Json = False
) -> None:
    """Validate the whole configuration, then take in what may change; say what needs a restart.

    A bad one changes nothing: exit status 78.
    """
    from taskengine.cli import control

    answer = control.ask(control.place(socket, instance, config), "reload")
    control.show_reload(answer, as_json=as_json)


@app.command()
def drain(
    wait: _Wait = False,
    timeout: _Timeout = None,
    socket: _Socket = None,
    instance: _Instance = "",
    config: Config = None,
) -> None:
    """Take no new work; what runs goes on for as long as it needs, and the daemon stays.

    Others take what waits, and fire the schedules. A restart undoes it, and interrupts nothing
    once nothing runs.
    """
    from taskengine.cli import control

    path = control.place(socket, instance, config)
    control.drain(path)
    if wait or timeout is not None:
        control.wait(path, timeout)
