"""`taskengine config`: what counts here, and where it is from."""

from __future__ import annotations

from taskengine.cli.options import Config, Json, new_app

app = new_app("The configuration, and where each value is from.")


@app.callback()
def group() -> None:
    """The configuration, and where each value is from."""


@app.command()
def show(config: Config = None, as_json: Json = False) -> None:
    """Every key, its value, and what said so. Secrets are hidden."""
    from taskengine.cli import config_views, out

    out.show(
        config_views.read(config),
        config_views.COLUMNS,
        config_views.Entry._asdict,
        as_json=as_json,
        nothing="",
    )
