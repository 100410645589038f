"""Whose turn is next under an exclusive key: pushed when the key's holder has left it.

A refused waiter's message was dropped, so every move out of running, every cancel of a pending row
and every failed claim of a keyed row wakes the key: its oldest due row in each queue is pushed,
whatever is marked or held. Guarantees: a push too many is refused by the claim and costs nothing; a
push that is lost (Redis away, a crash before it) is made up for by the delivery sweep. A queue that
is paused keeps its turn: the row waits in it like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taskengine.errors import Away
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Delivery
from taskengine.store import executions
from taskengine.store.execution_rows import Moved
from taskengine.telemetry.events import emit


async def wake(parts: Parts, keys: Iterable[str | None], jobs: Sequence[str] | None = None) -> None:
    """Push the next of each key; `jobs`: only of these."""
    due = await next_of(parts, keys, jobs)
    if due:
        await deliver(parts, due)


async def next_of(
    parts: Parts, keys: Iterable[str | None], jobs: Sequence[str] | None = None
) -> list[Delivery]:
    """What is to be pushed for these keys (None: not keyed). Never fails: the sweep is behind it."""
    left = sorted({key for key in keys if key is not None})
    if not left:
        return []
    try:
        async with parts.store.connection() as c:
            return await executions.next_of_keys(c, left, parts.queues.names, jobs)
    except Away as error:
        emit("execution.unwoken", count=len(left), error=error)
        return []


async def deliver_moved(parts: Parts, moved: Sequence[Moved]) -> None:
    """After the commit of moves out of running: what is pending again, and the next of their keys."""
    pending = [d for m in moved if (d := m.delivery) is not None]
    due = await next_of(parts, [m.exclusive_key for m in moved])
    if pending or due:
        await deliver(parts, [*pending, *due])
