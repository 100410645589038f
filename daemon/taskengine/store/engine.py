"""Who this database is, and its clock."""

from __future__ import annotations

from datetime import datetime

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


async def identity(c: Connection) -> tuple[str, int]:
    """(identity, generation of the last rebuild of Redis)."""
    row = await c.fetchrow(sql("engine/identity"))
    assert row is not None  # noqa: S101  the first migration wrote it
    return row["identity"], row["generation"]


async def next_generation(c: Connection) -> tuple[str, int]:
    """The identity and the generation of a rebuild that begins."""
    row = await c.fetchrow(sql("engine/next_generation"))
    assert row is not None  # noqa: S101
    return row["identity"], row["generation"]


async def now(c: Connection) -> datetime:
    """The database's clock."""
    moment: datetime = await c.fetchval(sql("engine/now"))
    return moment
