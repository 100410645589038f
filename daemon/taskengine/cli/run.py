"""`taskengine run`: the daemon, in the foreground."""

from __future__ import annotations

import typer

from taskengine.cli.options import Config, new_app

app = new_app()


@app.command()
def run(config: Config = None) -> None:
    """Run the daemon until it is asked to stop (SIGTERM drains; a second one hurries)."""
    from taskengine.app import leave, serve
    from taskengine.cli.session import load

    loaded = load(config)
    status = serve(loaded.config, loaded.path)
    leave(status)
    raise typer.Exit(status)
