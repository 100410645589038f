"""`taskengine executions`: look at executions, run them again, cancel them."""

from __future__ import annotations

from typing import Annotated

import typer

from taskengine.cli.options import MAX_ID, Config, Id, Ids, Json, Limit, Yes, new_app
from taskengine.model.execution import State

app = new_app("Look at executions, run them again, cancel them.")

_OptionalIds = Annotated[
    list[int] | None, typer.Argument(min=1, max=MAX_ID, metavar="[ID...]", show_default=False)
]
_Failed = Annotated[bool, typer.Option("--failed", help="All that failed, the oldest first.")]
_Job = Annotated[str | None, typer.Option("--job", help="Only this job's.")]
_FromStart = Annotated[bool, typer.Option("--from-start", help="Forget the saved cursor.")]


@app.command("list")
def list_(
    state: Annotated[State | None, typer.Option("--state", help="In this state.")] = None,
    job: _Job = None,
    queue: Annotated[str | None, typer.Option("--queue", help="In this queue.")] = None,
    store: Annotated[str | None, typer.Option("--store", help="For this store.")] = None,
    before: Annotated[int | None, typer.Option("--before", help="Older than this id.")] = None,
    limit: Limit = 50,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """The newest executions first."""
    from taskengine.cli import execution_views, out
    from taskengine.cli.session import ask
    from taskengine.client import TaskEngine
    from taskengine.model.execution import Execution
    from taskengine.store import lookup

    async def read(engine: TaskEngine) -> list[Execution]:
        async with engine.parts.store.connection() as c:
            return await lookup.list_(
                c, state=state, job=job, queue=queue, type_num=store, before=before, limit=limit
            )

    out.show(
        ask(config, read),
        execution_views.COLUMNS,
        execution_views.shape,
        as_json=as_json,
        nothing="no such executions",
    )


@app.command()
def show(
    execution_id: Id,
    log_limit: Annotated[
        int, typer.Option("--log-limit", min=0, max=100_000, help="So many lines of its log.")
    ] = 1000,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """One execution: its row, its history, its own log."""
    from taskengine.cli import execution_views
    from taskengine.cli.session import ask
    from taskengine.client import TaskEngine
    from taskengine.store import logs, lookup

    async def read(engine: TaskEngine) -> execution_views.Whole:
        execution = await engine.get(execution_id)
        async with engine.parts.store.connection() as c:
            history = await lookup.attempts(c, execution_id)
            return execution_views.Whole(
                execution, history, await logs.of(c, execution_id, log_limit)
            )

    execution_views.print_whole(ask(config, read), as_json=as_json)


@app.command()
def redrive(
    ids: _OptionalIds = None,
    failed: _Failed = False,
    job: _Job = None,
    limit: Limit = 1000,
    from_start: _FromStart = False,
    yes: Yes = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Run failed or cancelled executions again, at once.

    Those named, or all that --failed finds.
    One that is pending already is refused (exit status 4): a second press does nothing.
    """
    from taskengine.cli.moves import failed_ids, redrive_all
    from taskengine.cli.session import ask, confirm
    from taskengine.cli.words import plural
    from taskengine.errors import InvalidSetting

    if bool(ids) == failed:
        raise InvalidSetting("name executions, or say --failed, and not both")
    if job is not None and not failed:
        raise InvalidSetting("--job goes with --failed")
    wanted = ids or ask(config, lambda engine: failed_ids(engine, job, limit))
    if failed and wanted:
        confirm(f"Redrive {plural(len(wanted), 'failed execution')}?", yes=yes)
    raise typer.Exit(
        ask(config, lambda e: redrive_all(e, wanted, from_start=from_start, as_json=as_json))
    )


app.command("retry", help="The same as redrive.")(redrive)


@app.command()
def cancel(
    ids: Ids,
    reason: Annotated[str, typer.Option("--reason", help="For the history.")] = "asked",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Cancel executions. The answer to each is cancelled, requested (it runs, is asked to stop and
    may still end as succeeded), or already <state> (exit status 4 unless it is cancelled)."""
    from taskengine.cli.moves import cancel_all
    from taskengine.cli.session import ask

    raise typer.Exit(ask(config, lambda e: cancel_all(e, ids, reason, as_json=as_json)))
