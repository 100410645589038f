"""Mending by hand what the loops mend by themselves: the same statements and scripts, at once.

Guarantees: each is safe while daemons run and may be done twice; a Redis that is another database's
is refused (`WrongDatabase`). Each answers with what it did, in words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from taskengine.broker.inspection import Inspection
from taskengine.broker.queue import BATCH
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.rebuild import mend_keys, recall, remember, rewrite
from taskengine.lifecycle.recover import BATCH as TAKEN
from taskengine.lifecycle.recover import take_late, take_rows
from taskengine.model.execution import Delivery
from taskengine.store import doctor, engine

_ROWS = 1000
_ROUNDS = 200


async def keys(parts: Parts) -> str:
    """Drop keys of ours that hold something else; their queues are written anew."""
    await recall(parts)
    queues = await mend_keys(parts)
    await remember(parts)
    anew = f"written anew: {', '.join(queues)}" if queues else "no queue had lost anything"
    return f"dropped keys of a wrong type; {anew}"


async def memory(parts: Parts) -> str:
    """Write all deliveries anew, unless somebody has done so."""
    rebuilt = await remember(parts)
    if rebuilt is None:
        return "Redis was rebuilt meanwhile"
    return f"rebuilt Redis: {rebuilt.total} delivered"


async def queue(parts: Parts, name: str) -> str:
    """Write a queue anew."""
    await recall(parts)
    return f"wrote {name} anew: {await rewrite(parts, name)} delivered"


async def deliveries(parts: Parts, name: str, ids: Sequence[int]) -> str:
    """Deliver those that wait and have no message."""
    await recall(parts)
    async with parts.store.connection() as c:
        rows = await doctor.waiting_again(c, ids)
    count = await deliver_missing(parts, name, rows)
    return f"delivered {count} of {name}"


async def deliver_missing(parts: Parts, name: str, rows: Sequence[Delivery]) -> int:
    """Rows of a queue; how many had no message."""
    missing = await Inspection(parts.client, parts.keys).without_message(name, rows)
    await deliver(parts, missing)
    return len(missing)


async def messages(parts: Parts, name: str, members: Sequence[int | bytes]) -> str:
    """Drop messages that nobody waits for. One that was redriven meanwhile is delivered again."""
    await recall(parts)
    await Inspection(parts.client, parts.keys).drop(name, members)
    ids = [each for each in members if isinstance(each, int)]
    async with parts.store.connection() as c:
        again = await doctor.waiting_again(c, ids)
    await deliver(parts, again)
    return f"dropped {len(members) - len(again)} messages of {name}"


async def reservations(parts: Parts, name: str) -> str:
    """Give back what was reserved longer ago than the grace."""
    await recall(parts)
    grace, moved = parts.config.recovery.reserve_grace, 0
    while count := await parts.queues.requeue(name, grace):
        moved += count
    return f"gave {moved} back to {name}"


async def promotions(parts: Parts, name: str) -> str:
    """Move what is due from the delayed set to the queue."""
    await recall(parts)
    async with parts.store.connection() as c:
        now = int((await engine.now(c)).timestamp() * 1_000_000)
    moved, more = 0, True
    while more:
        count, _ = await parts.queues.promote(name, now)
        moved, more = moved + count, count == BATCH
    return f"promoted {moved} of {name}"


async def left_running(parts: Parts, by: str) -> str:
    """Take what runs under workers that are gone, as recovery does."""
    async with parts.store.connection() as c:
        gone = sorted({row.worker_id for row in await doctor.under_dead(c, _ROWS)})
    taken = 0
    for worker_id in gone:
        taken += await _all(partial(take_rows, parts, worker_id, by))
    return f"took {taken} over from {len(gone)} workers that are gone"


async def late(parts: Parts, by: str) -> str:
    """Take what is past its deadline by a whole timeout and not held, as recovery does."""
    taken = await _all(partial(take_late, parts, by))
    return f"took {taken} over that were past their time and not held"


async def _all(take: Callable[[], Awaitable[int]]) -> int:
    """Batch after batch, within bounds: what Postgres does not let go comes again in each."""
    taken = 0
    for _ in range(_ROUNDS):
        count = await take()
        taken += count
        if count < TAKEN:
            break
    return taken
