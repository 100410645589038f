"""`taskengine status`: how the whole installation is doing."""

from __future__ import annotations

import typer

from taskengine.cli.options import Config, Json, new_app

app = new_app()


@app.command()
def status(config: Config = None, as_json: Json = False) -> None:
    """How the whole installation is doing, and what to do about what is wrong.

    Exit status 0: healthy; 1: degraded, or no daemon runs; 5: Postgres is away.
    """
    from taskengine.cli import status_view
    from taskengine.cli.session import ask
    from taskengine.insight import status as insight

    found = ask(config, lambda engine: insight.read(engine.parts))
    status_view.print_status(found, as_json=as_json)
    raise typer.Exit(0 if found.word == insight.HEALTHY else 1)
