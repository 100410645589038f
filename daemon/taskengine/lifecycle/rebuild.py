"""Delivery written anew: when Redis has lost or changed its memory, all of it comes from Postgres.

Guarantees: nothing is reserved from a Redis that is being rebuilt; a rebuild holds only if its
token and the server's `run_id` are still there at its end; pushing is idempotent, so dispatches
that go on meanwhile are harmless. A key of ours that holds something else is dropped: what it
should hold is in Postgres. What belongs to another database is never touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskengine.broker.epoch import Seen
from taskengine.broker.inspection import Inspection
from taskengine.errors import BrokerUnavailable, WrongDatabase
from taskengine.lifecycle.parts import Parts
from taskengine.store import engine, executions
from taskengine.telemetry.events import emit

_BATCH = 1000
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild wrote: ids delivered a queue."""

    queues: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.queues.values())


@dataclass(frozen=True, slots=True)
class Planned:
    """What a rewrite of a queue would push and delay, and how many of these have no message now."""

    queue: str
    due: int
    delayed: int
    missing: int


async def recall(parts: Parts) -> Seen:
    """Compare Redis's epoch with the database; `WrongDatabase` where it is another one's.

    Brings `parts.memory` up to date where Redis is good.
    """
    async with parts.store.connection() as c:
        identity, generation = await engine.identity(c)
    parts.memory.identity = identity
    seen = await parts.epoch.read()
    if seen.identity and seen.identity != identity:
        raise WrongDatabase(
            f"Redis holds the deliveries of another database under the prefix "
            f"{parts.keys.prefix!r}: give this engine its own [redis] prefix"
        )
    if seen.is_good(identity, generation):
        parts.memory.generation = seen.generation
    return seen


def is_good(parts: Parts, seen: Seen) -> bool:
    """Whether `recall` found the memory that we know."""
    return seen.is_good(parts.memory.identity, parts.memory.generation) and (
        seen.generation == parts.memory.generation
    )


async def remember(parts: Parts) -> Rebuilt | None:
    """Rebuild Redis if it does not remember; None where it does."""
    if is_good(parts, await recall(parts)):
        return None
    return await rebuild(parts)


async def rebuild(parts: Parts) -> Rebuilt:
    """Write all deliveries anew under a new generation; starts over where it was overtaken."""
    for _ in range(_TRIES):
        rebuilt = await _attempt(parts)
        if rebuilt is not None:
            emit("delivery.rebuilt", count=rebuilt.total, queues=rebuilt.queues)
            return rebuilt
    raise BrokerUnavailable("Redis changed its memory under every rebuild: it is tried again")


async def _attempt(parts: Parts) -> Rebuilt | None:
    """One rebuild; None where another began meanwhile, or the server was replaced."""
    queues = parts.queues.names
    async with parts.store.connection() as c:
        identity, generation = await engine.next_generation(c)
    token = f"{parts.draw_token():x}"
    run_id = await parts.epoch.begin(token, queues)
    rebuilt = Rebuilt({queue: await rewrite(parts, queue) for queue in queues})
    if not await parts.epoch.seal(token, run_id, identity, generation):
        return None
    parts.memory.identity, parts.memory.generation = identity, generation
    return rebuilt


async def rewrite(parts: Parts, queue: str) -> int:
    """Push or delay every pending row of a queue, oldest first; how many there are."""
    await drop_wrong_types(parts, [queue])
    count = 0
    async with parts.store.transaction() as c:
        async for rows in executions.pending_of(c, queue, _BATCH):
            await parts.queues.push([row for row in rows if row.due])
            await parts.queues.delay([row for row in rows if not row.due])
            count += len(rows)
    return count


async def plan(parts: Parts, queue: str) -> Planned:
    """What `rewrite` would do; changes nothing."""
    inspection = Inspection(parts.client, parts.keys)
    due = delayed = missing = 0
    async with parts.store.transaction() as c:
        async for rows in executions.pending_of(c, queue, _BATCH):
            due += sum(row.due for row in rows)
            delayed += sum(not row.due for row in rows)
            missing += len(await inspection.without_message(queue, rows))
    return Planned(queue, due, delayed, missing)


async def drop_wrong_types(parts: Parts, queues: Sequence[str]) -> list[str]:
    """Drop keys of ours that hold something else; the queues that lost one by it.

    Only after a `recall`: what is another database's is not ours to drop.
    """
    dropped = await Inspection(parts.client, parts.keys).drop_wrong_types(queues)
    for each in dropped:
        emit("broker.wrong_type", key=each.key, found=each.found)
    return sorted({each.queue for each in dropped if each.queue})


async def mend_keys(parts: Parts) -> list[str]:
    """The same for all keys, and those queues are written anew: found at once, on any daemon."""
    lost = await drop_wrong_types(parts, parts.queues.names)
    for queue in lost:
        await rewrite(parts, queue)
    return lost
