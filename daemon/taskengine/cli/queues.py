"""`taskengine queues`: what they hold; a pause is kept in Postgres and outlives Redis."""

from __future__ import annotations

from typing import Annotated

import typer

from taskengine.cli.options import Config, Json, new_app

app = new_app("Queues, and what they hold.")

_Names = Annotated[list[str], typer.Argument(metavar="NAME...")]


@app.command("list")
def list_(config: Config = None, as_json: Json = False) -> None:
    """Every queue of the list, and any other that holds executions."""
    from taskengine.cli import out, queue_views
    from taskengine.cli.session import ask
    from taskengine.insight import findings

    found = ask(config, lambda engine: findings.read_queues(engine.parts))
    out.show(found, queue_views.COLUMNS, queue_views.shape, as_json=as_json, nothing="no queues")


@app.command()
def pause(
    names: _Names,
    reason: Annotated[str, typer.Option("--reason", help="Why; shown wherever it is paused.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Let nothing more of these queues begin.

    What runs goes on, and dispatches are taken.
    """
    from taskengine.cli import out, queue_views
    from taskengine.cli.session import ask

    changed = ask(config, lambda engine: queue_views.pause(engine, names, reason))
    out.show(changed, queue_views.CHANGES, queue_views.Change._asdict, as_json=as_json, nothing="")


@app.command()
def resume(names: _Names, config: Config = None, as_json: Json = False) -> None:
    """Let them run again.

    Daemons begin at once; without Redis at their next beat, within seconds.
    """
    from taskengine.cli import out, queue_views
    from taskengine.cli.session import ask

    changed = ask(config, lambda engine: queue_views.resume(engine, names))
    out.show(changed, queue_views.CHANGES, queue_views.Change._asdict, as_json=as_json, nothing="")
