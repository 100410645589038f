"""Executions in Postgres: every move of a row's life, one statement each.

The verbs are the specification's. Each function takes a connection first. A move that matches no
row is no error: somebody else decided first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from taskengine.model.execution import Claim, Delivery, Orphan
from taskengine.model.settlement import Settlement, Success
from taskengine.store.execution_rows import (
    Cancelled,
    Found,
    HeldState,
    Inserted,
    Leftover,
    Marked,
    Moved,
    NewExecution,
    NextOfKey,
    Redriven,
)
from taskengine.store.pool import Connection
from taskengine.store.statements import sql


async def insert(
    c: Connection,
    rows: Sequence[NewExecution],
    queues: Sequence[str],
    check_after: float,
    lock_timeout: str = "100ms",
) -> list[Inserted]:
    """Insert pending rows, sorted by the caller by (job, key); those there already are left out."""
    *columns, wanted, exclusive = _columns(rows, 11)
    records = await c.fetch(
        sql("executions/insert"), *columns, queues, lock_timeout, check_after, wanted, exclusive
    )
    return [Inserted(*r.values()) for r in records]


async def found(c: Connection, rows: Sequence[NewExecution]) -> list[Found]:
    """What stands behind dispatches that inserted nothing, in their order."""
    jobs, keys, stores, *_ = _columns(rows, 11)
    records = await c.fetch(sql("executions/found"), jobs, keys, stores)
    return [Found(*r.values()) for r in records]


async def claim(
    c: Connection, ids: Sequence[int], worker_id: int, token: int, jobs: Sequence[str]
) -> list[Claim]:
    """pending → running under `token`; a repeat with the same token gives the same rows.

    Rows with an exclusive key and orphaned ones are left to `claim_apart`.
    """
    records = await c.fetch(sql("executions/claim"), ids, worker_id, token, jobs)
    return [Claim(*r.values()) for r in records]


async def claim_apart(
    c: Connection,
    ids: Sequence[int],
    worker_id: int,
    token: int,
    jobs: Sequence[str],
    known: Sequence[str],
) -> list[Claim]:
    """The same for keyed and orphaned rows: one a key, its oldest; a key that is held, or of which
    an older row of the jobs `known` waits in the same queue, is skipped.

    `DuplicateKey` where somebody else took one of the keys at the same time.
    """
    records = await c.fetch(sql("executions/claim_apart"), ids, worker_id, token, jobs, known)
    return [Claim(*r.values()) for r in records]


async def mark_waiting(c: Connection, ids: Sequence[int], jobs: Sequence[str]) -> list[Marked]:
    """Refused waiters wait for their key; those missing in the answer wait no longer."""
    return [Marked(*r.values()) for r in await c.fetch(sql("executions/mark_waiting"), ids, jobs)]


async def next_of_keys(
    c: Connection, keys: Sequence[str], queues: Sequence[str], jobs: Sequence[str] | None = None
) -> list[Delivery]:
    """Whose turn is next: each key's oldest due row in each queue."""
    records = await c.fetch(sql("executions/next_of_keys"), keys, queues, jobs)
    return [Delivery(r["id"], r["queue"], r["score"], True) for r in records]


async def next_of_free_keys(
    c: Connection,
    queues: Sequence[str],
    limit: int,
    jobs: Sequence[str] | None = None,
    after: str = "",
) -> list[NextOfKey]:
    """The same for so many keys that have marked waiters and that nobody holds, from `after` on."""
    records = await c.fetch(sql("executions/next_of_free_keys"), queues, limit, jobs, after)
    return [NextOfKey(*r.values()) for r in records]


async def leftover(c: Connection, ids: Sequence[int], jobs: Sequence[str]) -> list[Leftover]:
    """Why these ids were not claimed."""
    records = await c.fetch(sql("executions/leftover"), ids, jobs)
    return [Leftover(*r.values()) for r in records]


async def succeed(c: Connection, successes: Sequence[Success]) -> set[int]:
    """running → succeeded; the ids that moved."""
    records = await c.fetch(sql("executions/succeed"), *_columns(successes, 6))
    return {r[0] for r in records}


async def settle(
    c: Connection,
    settlements: Sequence[Settlement],
    by: str,
    notice_queue: str,
    check_after: float,
) -> list[Moved]:
    """Every other move out of running, its history, and the notices of failures."""
    *columns, verify = _columns(settlements, 14)
    records = await c.fetch(
        sql("executions/settle"), *columns, by, notice_queue, check_after, verify
    )
    return [Moved(*r.values()) for r in records]


async def unclaimable(
    c: Connection,
    execution_id: int,
    reason: str,
    by: str,
    notice_queue: str,
    check_after: float,
) -> list[Moved]:
    """A row that cannot be claimed becomes failed, its history, and the notice of it."""
    records = await c.fetch(
        sql("executions/unclaimable"), execution_id, reason, by, notice_queue, check_after
    )
    return [Moved(*r.values()) for r in records]


async def cancel(c: Connection, ids: Sequence[int], by: str, reason: str) -> list[Cancelled]:
    """pending → cancelled; running is asked to abort."""
    return [
        Cancelled(*r.values()) for r in await c.fetch(sql("executions/cancel"), ids, by, reason)
    ]


async def redrive(
    c: Connection, ids: Sequence[int], by: str, *, from_start: bool, check_after: float
) -> list[Redriven]:
    """failed, cancelled → pending."""
    records = await c.fetch(sql("executions/redrive"), ids, by, from_start, check_after)
    return [Redriven(*r.values()) for r in records]


async def undelivered(
    c: Connection, queues: Sequence[str], limit: int, check_after: float
) -> list[Delivery]:
    """Pending rows whose time to be checked has come; it has been moved on."""
    records = await c.fetch(sql("executions/undelivered"), queues, limit, check_after)
    return [Delivery(r["id"], r["queue"], r["score"], True) for r in records]


async def delivered(c: Connection, ids: Sequence[int]) -> None:
    """Rows whose message is where it should be."""
    await c.execute(sql("executions/delivered"), ids)


async def orphans_of(c: Connection, worker_id: int, limit: int) -> list[Orphan]:
    """Running rows of a worker, locked."""
    return [
        Orphan(*r.values()) for r in await c.fetch(sql("executions/orphans_of"), worker_id, limit)
    ]


async def over_time(c: Connection, limit: int) -> list[Orphan]:
    """Running rows that their worker could not settle in time, locked."""
    return [Orphan(*r.values()) for r in await c.fetch(sql("executions/over_time"), limit)]


async def held(
    c: Connection,
    worker_id: int,
    ids: Sequence[int],
    tokens: Sequence[int],
    known: Sequence[int],
) -> list[HeldState]:
    """What changed about the claims of a worker."""
    records = await c.fetch(sql("executions/held"), worker_id, ids, tokens, known)
    return [HeldState(*r.values()) for r in records]


async def progress(c: Connection, rows: Sequence[tuple[int, int, int | None, str | None]]) -> None:
    """(id, token, percent, message) of claims still held."""
    await c.execute(sql("executions/progress"), *_columns(rows, 4))


async def save_cursor(c: Connection, execution_id: int, token: int, text: str) -> bool:
    """Whether the claim was still held, and so the cursor is kept."""
    return await c.fetchval(sql("executions/save_cursor"), execution_id, token, text) is not None


async def pending_count(c: Connection, queues: Sequence[str]) -> dict[str, int]:
    """How many pending rows each queue should have a message for."""
    records = await c.fetch(sql("executions/pending_count"), queues)
    return {r["queue"]: r["pending"] for r in records}


async def pending_of(c: Connection, queue: str, batch: int) -> AsyncIterator[list[Delivery]]:
    """The pending rows of a queue, oldest first, in batches; needs a transaction."""
    cursor = await c.cursor(sql("executions/pending_of"), queue)
    while rows := await cursor.fetch(batch):
        yield [Delivery(r["id"], queue, r["score"], r["due"]) for r in rows]


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[tuple[object, ...]]:
    """Rows turned into one array a column."""
    return list(zip(*rows, strict=True)) if rows else [()] * width
