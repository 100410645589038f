"""`taskengine dev`: the arguments; what it does is in `dev`."""

from __future__ import annotations

from typing import Annotated

import typer

from taskengine.cli.options import Config, new_app

app = new_app()


@app.command()
def dev(
    config: Config = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, help="Instead of [web] port; 0: any.")
    ] = None,
) -> None:
    """Try it: a private Postgres and Valkey in this folder, example jobs, and the daemon.

    Ctrl-C stops everything in order; the data in .taskengine/ is kept for the next run.
    """
    from taskengine.app import leave
    from taskengine.cli.dev import main

    status = main(config, port)
    leave(status)
    raise typer.Exit(status)
