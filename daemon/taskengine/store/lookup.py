"""Executions as they are shown: one of them, a list, a history. Nothing here changes a row."""

from __future__ import annotations

from collections.abc import Iterable

from taskengine.model.execution import Attempt, Execution, State
from taskengine.store.pool import Connection
from taskengine.store.statements import sql


async def get(c: Connection, execution_id: int) -> Execution | None:
    """One execution, whole."""
    row = await c.fetchrow(sql("executions/get"), execution_id)
    return _execution(row.values()) if row else None


async def list_(
    c: Connection,
    *,
    state: str | None = None,
    job: str | None = None,
    queue: str | None = None,
    type_num: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Execution]:
    """The newest first."""
    unwell = state in (State.FAILED, State.CANCELLED)
    statement = sql("executions/list_unwell") if unwell else sql("executions/list")
    records = await c.fetch(statement, state, job, queue, type_num, before, limit)
    return [_execution(r.values()) for r in records]


async def attempts(c: Connection, execution_id: int) -> list[Attempt]:
    """An execution's history, oldest first."""
    return [Attempt(*r.values()) for r in await c.fetch(sql("executions/attempts"), execution_id)]


def _execution(values: Iterable[object]) -> Execution:
    row = list(values)
    row[6] = State(str(row[6]))
    return Execution(*row)  # type: ignore[arg-type]
