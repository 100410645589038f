"""`taskengine dispatch`: the arguments of a dispatch, and how its answer is shown."""

from __future__ import annotations

from typing import Annotated

import typer

from taskengine.cli.options import Config, Json, new_app

app = new_app()

_Payload = Annotated[
    str, typer.Option("--payload", "-p", metavar="JSON", help="JSON, @FILE, or - for stdin.")
]
_Key = Annotated[str | None, typer.Option("--key", help="Its idempotency key; none: one is drawn.")]
_Exclusive = Annotated[
    str | None,
    typer.Option("--exclusive-key", metavar="KEY", help="One at a time runs under it."),
]
_Delay = Annotated[
    str | None, typer.Option("--delay", metavar="SPAN", help='Seconds, or such as "15m".')
]
_RunAt = Annotated[
    str | None, typer.Option("--run-at", metavar="ISO", help="2026-11-30T22:00:00+01:00")
]


@app.command()
def dispatch(
    job: Annotated[str, typer.Argument(metavar="JOB")],
    payload: _Payload = "{}",
    key: _Key = None,
    exclusive_key: _Exclusive = None,
    delay: _Delay = None,
    run_at: _RunAt = None,
    store: Annotated[
        str | None, typer.Option("--store", metavar="TYPE_NUM", help="For this store.")
    ] = None,
    all_stores: Annotated[
        bool, typer.Option("--all-stores", help="Once for each active store.")
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option("--wait", min=0, metavar="SECONDS", help="Wait until it has ended."),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Dispatch a job: its row is committed when this returns, whatever Redis does.

    With --wait the exit status is 0 for succeeded, 1 for failed or cancelled, 75 for not ended yet.
    """
    from taskengine.cli import dispatching, out
    from taskengine.cli.session import ask

    order = dispatching.order(
        job, payload, key, delay, run_at, store, exclusive_key, all_stores=all_stores
    )
    sent = ask(config, lambda engine: dispatching.carry_out(engine, order, wait), jobs=True)
    out.show(
        sent,
        dispatching.COLUMNS,
        dispatching.shape,
        as_json=as_json,
        nothing="there is no active store: nothing was dispatched",
    )
    raise typer.Exit(dispatching.status(sent, waited=wait is not None))
