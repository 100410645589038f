"""What `doctor` asks Postgres: rows that are not where they should be, and the server's own state.

Guarantees: every question is quick beside a million rows of history (a test asks for the plans),
and answered with no more rows than asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from taskengine.model.execution import Delivery
from taskengine.store.pool import Connection, Store
from taskengine.store.statements import sql

_POOLER_SECONDS = 3.0


class Server(NamedTuple):
    """Postgres itself: its settings, its connections, the age of its oldest transaction id."""

    version_number: int
    now: datetime
    in_recovery: bool
    read_only: bool
    synchronous_commit: str
    fsync: bool
    full_page_writes: bool
    autovacuum: bool
    connections_most: int
    connections_reserved: int
    connections_used: int
    xid_age: int
    xid_limit: int
    replicas_async: int
    replicas_sync: str


class Table(NamedTuple):
    """A table as autovacuum sees it; `vacuumed`: so many seconds ago, or made then and never."""

    name: str
    live: int
    dead: int
    vacuumed: float
    switched_off: bool


class UnderDead(NamedTuple):
    """A row that runs under a worker that is no more."""

    id: int
    worker_id: int
    worker: str


class Notice(NamedTuple):
    """A notice of failures that reached nobody."""

    id: int
    state: str
    error: str | None


class Lapsed(NamedTuple):
    """A lease that lapsed so many seconds ago."""

    name: str
    holder: str
    seconds: float


async def pending(c: Connection, queue: str, most: int) -> list[Delivery]:
    """Rows that should have a message, oldest first."""
    records = await c.fetch(sql("doctor/pending"), queue, most)
    return [Delivery(r["id"], queue, r["score"], r["due"]) for r in records]


async def states(c: Connection, ids: Sequence[int]) -> Mapping[int, str]:
    """By id; those that are gone are missing."""
    return {r["id"]: r["state"] for r in await c.fetch(sql("doctor/states"), ids)}


async def waiting_again(c: Connection, ids: Sequence[int]) -> list[Delivery]:
    """Those of them that are to be delivered."""
    return [Delivery(*r.values()) for r in await c.fetch(sql("doctor/waiting_again"), ids)]


async def under_dead(c: Connection, most: int) -> list[UnderDead]:
    return [UnderDead(*r.values()) for r in await c.fetch(sql("doctor/under_dead"), most)]


async def past_deadline(c: Connection, seconds: float, most: int) -> list[int]:
    return [r["id"] for r in await c.fetch(sql("doctor/past_deadline"), seconds, most)]


async def quarantined(c: Connection, within: float, most: int) -> list[int]:
    """Among the `most` that failed last."""
    return [r["id"] for r in await c.fetch(sql("doctor/quarantined"), within, most)]


async def unreported(c: Connection, within: float, grace: float) -> Mapping[str, int]:
    """How many failures of each job were told to nobody."""
    records = await c.fetch(sql("doctor/unreported"), within, grace)
    return {r["job"]: r["failures"] for r in records}


async def notices(c: Connection, job: str, within: float, grace: float) -> list[Notice]:
    records = await c.fetch(sql("doctor/notices"), job, within, grace)
    return [Notice(*r.values()) for r in records]


async def lapsed(c: Connection) -> list[Lapsed]:
    return [Lapsed(*r.values()) for r in await c.fetch(sql("doctor/leases"))]


async def server(c: Connection) -> Server:
    record = await c.fetchrow(sql("doctor/server"))
    assert record is not None  # noqa: S101  a select without from
    return Server(*record.values())


async def tables(c: Connection) -> list[Table]:
    return [Table(*r.values()) for r in await c.fetch(sql("doctor/tables"))]


async def shares_backends(store: Store) -> bool:
    """Whether a pooler stands before Postgres that gives each transaction a connection of its own
    choice: while another transaction holds the one that we had, we are given another, or none."""
    async with store.connection() as ours, store.connection() as other:
        before = await ours.fetchval(sql("doctor/backend"))
        async with other.transaction():
            await other.fetchval(sql("doctor/backend"))
            try:
                async with asyncio.timeout(_POOLER_SECONDS):
                    return bool(before != await ours.fetchval(sql("doctor/backend")))
            except TimeoutError:
                return True
