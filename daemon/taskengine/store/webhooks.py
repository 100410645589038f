"""Webhook events in Postgres: stored once, processed once, found again where they were stranded.

Each function takes a connection first. An event is claimed by the execution that runs for it: the
pair (execution id, claim token). Statements over several events skip those that are locked, so
nobody waits for a job's open transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from taskengine.errors import ClaimLost
from taskengine.model.execution import Delivery
from taskengine.store.pool import Connection
from taskengine.store.statements import sql


class NewEvent(NamedTuple):
    """What ingest stores. `headers` is JSON text; `status`: received, ignored or invalid."""

    source: str
    event_id: str
    type: str | None
    status: str
    body: bytes
    body_sha256: bytes
    headers: str
    occurred_at: datetime | None
    error: str | None


class Stored(NamedTuple):
    """An event that was here already, and its executions that wait to be run."""

    id: int
    same_body: bool
    waiting: list[Delivery]


class Loaded(NamedTuple):
    """An event as its job sees it; no `body` once retention took it."""

    id: int
    source: str
    type: str | None
    body: bytes | None
    received_at: datetime
    occurred_at: datetime | None
    processed_at: datetime | None


class Stranded(NamedTuple):
    """An event to be dispatched again, or given up: so many recoveries it has had."""

    id: int
    source: str
    type: str | None
    recoveries: int
    received_at: datetime


class Target(NamedTuple):
    """What a job's definition says about whether it takes a dispatch."""

    name: str
    queue: str
    scope: str
    is_enabled: bool


class Event(NamedTuple):
    """An event as an operator sees it. `size` is the body's, in bytes; None once it was removed."""

    id: int
    source: str
    event_id: str
    type: str | None
    status: str
    size: int | None
    received_at: datetime
    occurred_at: datetime | None
    touched_at: datetime
    recoveries: int
    processed_at: datetime | None
    error: str | None


async def insert(c: Connection, event: NewEvent) -> int | None:
    """The new event's id; None where one with this (source, event id) is here already."""
    found: int | None = await c.fetchval(sql("webhooks/insert"), *event)
    return found


async def stored(c: Connection, source: str, event_id: str, body_sha256: bytes) -> Stored | None:
    """The event behind an insert that said None; None where it is gone again."""
    rows = await c.fetch(sql("webhooks/stored"), source, event_id, body_sha256)
    if not rows:
        return None
    waiting = [
        Delivery(r["execution_id"], r["queue"], r["score"], r["due"])
        for r in rows
        if r["execution_id"] is not None
    ]
    return Stored(rows[0]["id"], rows[0]["same_body"], waiting)


async def get(c: Connection, ids: Sequence[int]) -> list[Loaded]:
    """These events, in no order; those that do not exist are left out."""
    return [Loaded(*r.values()) for r in await c.fetch(sql("webhooks/get"), ids)]


async def lock(c: Connection, event_id: int, execution_id: int, token: int) -> datetime | None:
    """Lock the event until the transaction ends: when it was processed, if it was.

    `ClaimLost` where the execution does not run under this token (any more).
    """
    row = await c.fetchrow(sql("webhooks/lock"), event_id, execution_id, token)
    if row is None:
        raise ClaimLost(f"execution {execution_id} no longer holds webhook event {event_id}")
    processed_at: datetime | None = row["processed_at"]
    return processed_at


async def processed(c: Connection, event_id: int, execution_id: int, token: int) -> None:
    """Mark the locked event processed, in the transaction of its effect; `ClaimLost` as above.

    The last statement of its transaction: from here on the claim cannot be taken away.
    """
    if await c.fetchval(sql("webhooks/still_claimed"), execution_id, token) is None:
        raise ClaimLost(f"execution {execution_id} lost webhook event {event_id} meanwhile")
    await c.execute(sql("webhooks/processed"), event_id)


async def processed_by_success(c: Connection, ids: Sequence[int]) -> dict[int, str]:
    """Mark events whose job succeeded without doing so itself; {id: source} of those marked now.

    For the transaction of the settlement: what a crash leaves between the two runs twice.
    """
    rows = await c.fetch(sql("webhooks/processed_by_success"), ids)
    return {r["id"]: r["source"] for r in rows}


async def fail(c: Connection, ids: Sequence[int], errors: Sequence[str]) -> set[int]:
    """Write why events will not be processed (a job's `Discard`); those that were marked now."""
    return {r["id"] for r in await c.fetch(sql("webhooks/fail"), ids, errors)}


async def stranded(
    c: Connection, sources: Sequence[str], limit: int, min_age: float, max_recoveries: int
) -> list[Stranded]:
    """Take the oldest stranded events of these sources; they are touched when this returns."""
    rows = await c.fetch(sql("webhooks/stranded"), sources, limit, min_age, max_recoveries)
    return sorted((Stranded(*r.values()) for r in rows), key=lambda s: (s.received_at, s.id))


async def abandon(
    c: Connection, sources: Sequence[str], limit: int, max_recoveries: int
) -> list[Stranded]:
    """Mark events that `max_recoveries` did not help; each is returned once in its life."""
    rows = await c.fetch(sql("webhooks/abandon"), sources, limit, max_recoveries)
    return [Stranded(*r.values()) for r in rows]


async def targets(c: Connection, jobs: Sequence[str]) -> dict[str, Target]:
    """The definitions of these jobs by name; a missing one is missing here."""
    return {r["name"]: Target(*r.values()) for r in await c.fetch(sql("webhooks/targets"), jobs)}


async def list_(
    c: Connection,
    *,
    source: str | None = None,
    status: str | None = None,
    type_: str | None = None,
    processed: bool | None = None,
    failed: bool | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Event]:
    """The newest first; `failed`: whether an error is written at them."""
    rows = await c.fetch(
        sql("webhooks/list"), source, status, type_, processed, failed, before, limit
    )
    return [Event(*r.values()) for r in rows]


async def unprocessed(
    c: Connection, *, ids: Sequence[int] | None = None, source: str | None = None, limit: int = 100
) -> list[Event]:
    """What an operator may have processed again, the oldest first, however fresh: the events
    named, whatever their state, else all that were received and not processed."""
    rows = await c.fetch(sql("webhooks/unprocessed"), ids, source, limit)
    return [Event(*r.values()) for r in rows]


async def reopen(c: Connection, ids: Sequence[int], leave_alone: float) -> list[Stranded]:
    """Make events fit to be processed again, before they are dispatched; those that are.

    The reconciler passes them over for `leave_alone` seconds. An event without body stays as it is.
    """
    rows = await c.fetch(sql("webhooks/reopen"), ids, leave_alone)
    return [Stranded(*r.values()) for r in rows]
