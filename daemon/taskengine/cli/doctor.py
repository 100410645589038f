"""`taskengine doctor`: a live system against what the engine promises, and what stands around it."""

from __future__ import annotations

from typing import Annotated

import typer

from taskengine.cli.options import Config, Json, new_app

app = new_app()

_Fix = Annotated[bool, typer.Option("--fix", help="Mend what is safe to mend, and say what.")]


@app.command()
def doctor(fix: _Fix = False, config: Config = None, as_json: Json = False) -> None:
    """What is wrong, what it means, and the command that mends it.

    Looks twice, a second apart: what is merely on its way is not found. Exit status 0: nothing, or
    only notes; 1: warnings; 2: errors; 5: Postgres is away, so nothing could be looked at.
    """
    from taskengine.cli import doctor_view
    from taskengine.cli.session import ask, operator

    broken = _broken(config)
    examined = ask(
        config,
        lambda engine: doctor_view.run(engine, operator(), mends=fix, broken=broken),
        jobs=broken is None,
    )
    doctor_view.show(examined, as_json=as_json)
    raise typer.Exit(examined.status)


def _broken(config: Config) -> str | None:
    """Why the modules of the jobs cannot be loaded; a doctor looks all the same."""
    from taskengine.cli.session import load
    from taskengine.errors import ConfigError
    from taskengine.model.registry import Registry

    modules = load(config).config.jobs.modules
    try:
        Registry.load(modules)
    except ConfigError as error:
        return str(error)
    return None
