"""`taskengine why ID`: why an execution has not run, is waiting, ran twice or failed."""

from __future__ import annotations

from taskengine.cli.options import Config, Id, Json, new_app

app = new_app()


@app.command()
def why(execution_id: Id, config: Config = None, as_json: Json = False) -> None:
    """Why an execution has not run, is waiting, ran twice or failed, and what to do about it.

    Exit status 3: there is no such execution (never, or retention has deleted it).
    """
    from taskengine.cli import why_view
    from taskengine.cli.session import ask

    why_view.show(ask(config, lambda engine: engine.why(execution_id)), as_json=as_json)
