"""Which queues are paused, by whom and why. Kept in Postgres: a pause outlives Redis."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


class Pause(NamedTuple):
    """A paused queue."""

    name: str
    paused_at: datetime
    paused_by: str
    pause_reason: str | None


async def paused(c: Connection) -> list[Pause]:
    return [Pause(*r.values()) for r in await c.fetch(sql("queues/paused"))]


async def pause(c: Connection, name: str, by: str, reason: str | None) -> None:
    await c.execute(sql("queues/pause"), name, by, reason)


async def resume(c: Connection, name: str) -> bool:
    """Whether it was paused."""
    return await c.fetchval(sql("queues/resume"), name) is not None
