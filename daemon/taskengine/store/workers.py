"""Daemons as Postgres sees them: registered, beating, stopped or declared dead."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


class NewWorker(NamedTuple):
    """What a daemon says of itself."""

    name: str
    host: str
    pid: int
    boot_id: str
    version: str
    queues: Sequence[str]
    jobs: Sequence[str]
    slots: int


class Worker(NamedTuple):
    """A daemon that should be beating. `loops` is JSON text."""

    id: int
    name: str
    host: str
    pid: int
    boot_id: str
    lock_path: str | None
    beat: int
    version: str
    queues: list[str]
    jobs: list[str]
    slots: int
    draining: bool
    loops: str
    started_at: datetime
    last_beat_at: datetime


async def register(c: Connection, worker: NewWorker) -> int:
    """The new worker's id."""
    return int(await c.fetchval(sql("workers/register"), *worker))


async def set_lock_path(c: Connection, worker_id: int, path: str) -> None:
    await c.execute(sql("workers/set_lock_path"), worker_id, path)


async def beat(
    c: Connection, worker_id: int, over_time: Sequence[int], loops: str, *, draining: bool
) -> datetime | None:
    """The database's clock; None where this worker was declared dead."""
    row = await c.fetchrow(sql("workers/beat"), worker_id, over_time, loops, draining)
    return row["now"] if row else None


async def living(c: Connection) -> list[Worker]:
    return [Worker(*r.values()) for r in await c.fetch(sql("workers/living"))]


async def lock(c: Connection, worker_id: int) -> bool:
    """Shut out the worker's claims until this transaction ends; False: its row is held just now."""
    return await c.fetchval(sql("workers/lock"), worker_id) is not None


async def declare_dead(c: Connection, worker_id: int, seen_beat: int | None) -> bool:
    """Whether it was us who declared it dead (it beat no more since `seen_beat`)."""
    return await c.fetchval(sql("workers/declare_dead"), worker_id, seen_beat) is not None


async def dead_with_rows(c: Connection) -> list[int]:
    return [r["id"] for r in await c.fetch(sql("workers/dead_with_rows"))]


async def stop(c: Connection, worker_id: int) -> None:
    await c.execute(sql("workers/stop"), worker_id)


async def forget(c: Connection, age: float) -> None:
    await c.execute(sql("workers/forget"), age)
