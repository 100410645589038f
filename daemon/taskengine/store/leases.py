"""Lease rows: which daemon does what only one should do at a time. A lapse costs work, no more."""

from __future__ import annotations

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


async def take(c: Connection, name: str, holder: str, token: int, seconds: float) -> bool:
    """Take or renew; whether the lease is ours now."""
    return await c.fetchval(sql("leases/take"), name, holder, token, seconds) is not None


async def renew(c: Connection, token: int, seconds: float) -> None:
    """Renew every lease of this token that has not lapsed."""
    await c.execute(sql("leases/renew"), token, seconds)


async def release(c: Connection, token: int) -> None:
    await c.execute(sql("leases/release"), token)
