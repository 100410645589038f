"""`taskengine stores`: whom per-store jobs run for."""

from __future__ import annotations

from typing import Annotated

import typer

from taskengine.cli.options import Config, Json, new_app

app = new_app("The stores that per-store jobs run for.")

_TypeNum = Annotated[str, typer.Argument(metavar="TYPE_NUM")]


@app.command("list")
def list_(config: Config = None, as_json: Json = False) -> None:
    """All stores. A DSN is never shown."""
    from taskengine.cli import out, store_views
    from taskengine.cli.session import ask

    out.show(
        ask(config, store_views.read),
        store_views.COLUMNS,
        store_views.shape,
        as_json=as_json,
        nothing="there are no stores",
    )


@app.command()
def add(
    type_num: _TypeNum,
    name: Annotated[str, typer.Option("--name", help="Its name.")],
    time_zone: Annotated[
        str, typer.Option("--time-zone", metavar="ZONE", help="Such as America/New_York.")
    ] = "UTC",
    dsn_env: Annotated[
        str | None,
        typer.Option(
            "--dsn-from-env", metavar="VARIABLE", help="Take its database's DSN from there."
        ),
    ] = None,
    dsn_stdin: Annotated[
        bool, typer.Option("--dsn-from-stdin", help="Read its database's DSN from there.")
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Add a store, or open and change one.

    Without a DSN it keeps the one it has.
    A DSN is a secret and no argument: everybody on the machine can read the arguments.
    """
    from taskengine.cli import out, store_views
    from taskengine.cli.session import ask

    new = store_views.new_store(type_num, name, time_zone, dsn_env, dsn_stdin=dsn_stdin)
    answer = ask(config, lambda engine: store_views.add(engine, new))
    out.show([answer], store_views.ANSWERS, store_views.Answer._asdict, as_json=as_json, nothing="")


@app.command()
def close(type_num: _TypeNum, config: Config = None, as_json: Json = False) -> None:
    """No new executions for this store; what is pending still runs."""
    from taskengine.cli import out, store_views
    from taskengine.cli.session import ask

    answer = ask(config, lambda engine: store_views.close(engine, type_num))
    out.show([answer], store_views.ANSWERS, store_views.Answer._asdict, as_json=as_json, nothing="")
