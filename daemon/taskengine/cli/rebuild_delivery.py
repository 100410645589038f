"""`taskengine rebuild-delivery`: what the divergence loop does, by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from taskengine.cli.options import Config, Json, new_app

app = new_app()

_Queue = Annotated[str | None, typer.Option("--queue", help="Only this queue.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; touch nothing.")]


@app.command()
def rebuild_delivery(
    queue: _Queue = None, dry_run: _DryRun = False, config: Config = None, as_json: Json = False
) -> None:
    """Write Redis anew from Postgres, in order; fine while daemons run.

    All queues begin a new generation. One queue is pushed into what is there. A Redis that another
    database uses is refused (exit status 78).
    """
    from taskengine.cli import rebuilding
    from taskengine.cli.session import ask

    done = ask(config, lambda engine: rebuilding.run(engine.parts, queue, dry_run=dry_run))
    rebuilding.show(done, as_json=as_json)
