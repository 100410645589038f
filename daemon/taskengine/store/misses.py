"""Fire times that did not run, and why: what was passed over, and what found its key taken."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


class NewMiss(NamedTuple):
    """A fire time to record. `key`: the one it would have had; see `record`."""

    type_num: str | None
    fire_time: datetime
    reason: str
    execution_id: int | None
    key: str | None


class Miss(NamedTuple):
    """A fire time that did not run, as an operator sees it."""

    id: int
    job: str
    type_num: str | None
    fire_time: datetime
    reason: str
    execution_id: int | None
    recorded_at: datetime


class Holder(NamedTuple):
    """The execution that holds a key; `score` is its `run_at` in µs."""

    key: str
    id: int
    state: str
    scheduled_for: datetime | None
    queue: str
    score: int
    due: bool


async def record(c: Connection, job: str, misses: Sequence[NewMiss]) -> int:
    """Record them, each fire time once; how many are new.

    With a `key` only if nothing was made of the fire time after all: an outage between two batches
    leaves some stores with their execution and others without.
    """
    if not misses:
        return 0
    columns = list(zip(*misses, strict=True))
    return len(await c.fetch(sql("misses/record"), job, *columns))


async def holders(c: Connection, job: str, keys: Sequence[str]) -> dict[str, Holder]:
    """Who holds these keys, by key."""
    records = await c.fetch(sql("misses/holders"), job, keys)
    return {r["key"]: Holder(*r.values()) for r in records}


async def list_(c: Connection, job: str | None = None, limit: int = 50) -> list[Miss]:
    """The newest first."""
    return [Miss(*r.values()) for r in await c.fetch(sql("misses/list"), job, limit)]


async def counts(c: Connection, since: datetime) -> dict[str, int]:
    """How many of each job since then."""
    return {r["job"]: r["missed"] for r in await c.fetch(sql("misses/counts"), since)}
