"""`taskengine schedules`: what fires when, and what did not."""

from __future__ import annotations

from typing import Annotated

import typer

from taskengine.cli.options import Config, Json, Limit, new_app

app = new_app("What fires when, and what was missed.")


@app.command("list")
def list_(config: Config = None, as_json: Json = False) -> None:
    """All schedules: last fire, next fire, and what was missed."""
    from taskengine.cli import out, schedule_views
    from taskengine.cli.session import ask

    out.show(
        ask(config, schedule_views.read),
        schedule_views.COLUMNS,
        schedule_views.shape,
        as_json=as_json,
        nothing="no job has a schedule",
    )


@app.command("next")
def next_(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", show_default=False)] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="So many.")] = 5,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """The next fire times of one schedule, or of all."""
    from taskengine.cli import out, schedule_views
    from taskengine.cli.session import ask

    out.show(
        ask(config, lambda engine: schedule_views.upcoming(engine, job, count)),
        schedule_views.FIRES,
        schedule_views.Fire._asdict,
        as_json=as_json,
        nothing="nothing will fire",
    )


@app.command()
def missed(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", show_default=False)] = None,
    limit: Limit = 50,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Fire times that did not run, the newest first, and why."""
    from taskengine.cli import out, schedule_views
    from taskengine.cli.session import ask

    out.show(
        ask(config, lambda engine: schedule_views.missed(engine, job, limit)),
        schedule_views.MISSED,
        schedule_views.missed_shape,
        as_json=as_json,
        nothing="nothing was missed",
    )
