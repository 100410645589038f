"""Stores: whom per-store jobs run for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from taskengine.model.surroundings import StoreInfo
from taskengine.store.pool import Connection
from taskengine.store.statements import sql


class StoreRow(NamedTuple):
    """A store as listed: whether it has a DSN, never the DSN."""

    type_num: str
    name: str
    time_zone: str
    is_active: bool
    has_dsn: bool
    created_at: datetime
    closed_at: datetime | None


async def active(c: Connection) -> list[StoreInfo]:
    return [StoreInfo(*r.values()) for r in await c.fetch(sql("stores/active"))]


async def find(c: Connection, type_nums: Sequence[str]) -> list[StoreInfo]:
    """The active ones of these."""
    return [StoreInfo(*r.values()) for r in await c.fetch(sql("stores/find"), type_nums)]


async def list_(c: Connection) -> list[StoreRow]:
    return [StoreRow(*r.values()) for r in await c.fetch(sql("stores/list"))]


async def dsn(c: Connection, type_num: str) -> str | None:
    """A store's DSN: a secret, for opening its pool and for nothing else."""
    found: str | None = await c.fetchval(sql("stores/dsn"), type_num)
    return found


async def add(c: Connection, type_num: str, name: str, zone: str, dsn: str | None) -> bool:
    """Add, or open and change; whether it is new."""
    return bool(await c.fetchval(sql("stores/add"), type_num, name, zone, dsn))


async def close(c: Connection, type_num: str) -> bool:
    """Whether there is such a store."""
    return await c.fetchval(sql("stores/close"), type_num) is not None
