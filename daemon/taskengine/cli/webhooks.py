"""`taskengine webhooks`: events, and having them processed again."""

from __future__ import annotations

from typing import Annotated

import typer

from taskengine.cli.options import MAX_ID, Config, Json, Limit, new_app

app = new_app("Webhook events.")

_Source = Annotated[str | None, typer.Option("--source", help="Only of this source.")]
_Status = Annotated[str | None, typer.Option("--status", help="received, ignored or invalid.")]
_Type = Annotated[str | None, typer.Option("--type", help="Only of this type.")]
_Processed = Annotated[
    bool | None, typer.Option("--processed/--unprocessed", help="Processed, or not.")
]


@app.command("list")
def list_(
    source: _Source = None,
    status: _Status = None,
    type_: _Type = None,
    processed: _Processed = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those with an error.")] = False,
    before: Annotated[int | None, typer.Option("--before", help="Older than this id.")] = None,
    limit: Limit = 50,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """The newest events first; their bodies are not shown."""
    from taskengine.cli import out, webhook_views
    from taskengine.cli.session import ask
    from taskengine.client import TaskEngine
    from taskengine.store import webhooks

    async def read(engine: TaskEngine) -> list[webhooks.Event]:
        async with engine.parts.store.connection() as c:
            return await webhooks.list_(
                c,
                source=source,
                status=status,
                type_=type_,
                processed=processed,
                failed=failed or None,
                before=before,
                limit=limit,
            )

    out.show(
        ask(config, read),
        webhook_views.COLUMNS,
        webhooks.Event._asdict,
        as_json=as_json,
        nothing="no such events",
    )


@app.command()
def reprocess(
    ids: Annotated[
        list[int] | None,
        typer.Option("--id", min=1, max=MAX_ID, help="This event, whatever its state; repeatable."),
    ] = None,
    source: _Source = None,
    limit: Limit = 100,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Dispatch the jobs of events again.

    Those named, else all that were received and are not processed.
    Nothing holds an operator back: neither an event's age nor its recoveries count. Exit status 3
    where a named event does not exist, 4 where one cannot be dispatched.
    """
    from taskengine.cli import out, webhook_views
    from taskengine.cli.session import ask
    from taskengine.lifecycle import reprocess as again

    found = ask(
        config,
        lambda engine: again.reprocess(
            engine.parts,
            engine.dispatcher,
            ids=ids,
            source=source,
            limit=max(limit, len(ids or ())),
            dry_run=dry_run,
        ),
    )
    out.show(
        found,
        webhook_views.REPROCESSED,
        webhook_views.reprocessed_shape,
        as_json=as_json,
        nothing="no events to process",
    )
    raise typer.Exit(webhook_views.status(found, ids or []))
