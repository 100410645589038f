"""What is due, in the order in which it is to be claimed: for who has no queue but Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


class DueQueue(NamedTuple):
    """A queue to look into for due rows: how many of it, after which (None: from the start)."""

    name: str
    most: int
    run_at: datetime | None = None
    id: int | None = None


class DueRow(NamedTuple):
    """A due row, locked; `score` is its `run_at` in µs."""

    id: int
    queue: str
    run_at: datetime
    score: int


async def lock_due(
    c: Connection,
    queues: Sequence[DueQueue],
    limit: int,
    jobs: Sequence[str],
    *,
    orphaned: tuple[bool, bool],
) -> list[DueRow]:
    """Rows that may be claimed here, locked in this transaction; marked waiters are left out.

    `orphaned`: whether those may be taken that were orphaned once, and those more often.
    """
    columns = list(zip(*queues, strict=True)) or [()] * 4
    records = await c.fetch(sql("executions/lock_due"), *columns, limit, jobs, *orphaned)
    return [DueRow(*r.values()) for r in records]
