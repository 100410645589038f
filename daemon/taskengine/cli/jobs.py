"""`taskengine jobs`: what the rows of the definitions say. A change applies to the next claim."""

from __future__ import annotations

from typing import Annotated

import typer

from taskengine.cli.options import Config, Json, new_app

app = new_app("Jobs and their settings: the row wins over the class.")

_Name = Annotated[str, typer.Argument(metavar="NAME")]
_Names = Annotated[list[str], typer.Argument(metavar="NAME...")]


@app.command("list")
def list_(config: Config = None, as_json: Json = False) -> None:
    """All jobs that have a row."""
    from taskengine.cli import job_views, out
    from taskengine.cli.session import ask

    out.show(
        ask(config, job_views.read_all),
        job_views.COLUMNS,
        job_views.shape,
        as_json=as_json,
        nothing="no job has a row yet: a daemon writes them when it starts",
    )


@app.command()
def show(name: _Name, config: Config = None, as_json: Json = False) -> None:
    """One job's settings."""
    from taskengine.cli import job_views
    from taskengine.cli.session import ask

    definition = ask(config, lambda engine: job_views.read_one(engine, name))
    job_views.print_one(definition, as_json=as_json)


@app.command("set")
def set_(
    name: _Name,
    changes: Annotated[list[str], typer.Argument(metavar="SETTING=VALUE...")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Change settings, all or none.

    Such as timeout=600 schedule='0 2 * * *' config='{"days": 3}'. An empty schedule= takes the
    schedule away.
    """
    from taskengine.cli import job_views
    from taskengine.cli.session import ask

    values = job_views.parse_changes(changes)
    code = values.get("on_interrupt") == "verify"  # whether it can be asked, only its code says
    definition = ask(config, lambda engine: job_views.change(engine, name, values), jobs=code)
    job_views.print_one(definition, as_json=as_json, only=values)


@app.command()
def enable(names: _Names, config: Config = None, as_json: Json = False) -> None:
    """Take dispatches again, and fire.

    Fire times that went by are not caught up with.
    """
    _switch(names, config, as_json, on=True)


@app.command()
def disable(names: _Names, config: Config = None, as_json: Json = False) -> None:
    """Take no new dispatch and fire no more.

    What is pending still runs.
    """
    _switch(names, config, as_json, on=False)


@app.command()
def diff(config: Config = None, as_json: Json = False) -> None:
    """Where the rows differ from the code; the row wins.

    The code: the classes and functions of [jobs] modules.
    """
    from taskengine.cli import job_views
    from taskengine.cli.session import ask
    from taskengine.lifecycle import definitions

    found = ask(config, lambda engine: definitions.diff(engine.parts), jobs=True)
    job_views.print_diff(found, as_json=as_json)


def _switch(names: list[str], config: Config, as_json: bool, *, on: bool) -> None:
    from taskengine.cli import job_views
    from taskengine.cli.session import ask

    for definition in ask(config, lambda engine: job_views.switch(engine, names, on=on)):
        job_views.print_one(definition, as_json=as_json, only=("is_enabled",))
