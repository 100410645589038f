"""What is over goes, in small batches that skip locked rows. Each function answers how many."""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


async def delete_drawn(c: Connection, states: Sequence[str], age: float, limit: int) -> int:
    """Ended executions whose key the engine drew; `age` in seconds."""
    return _count(await c.execute(sql("retention/delete_drawn"), states, age, limit))


async def empty_keyed(c: Connection, states: Sequence[str], age: float, limit: int) -> int:
    """Ended executions whose key a caller gave: the key stays."""
    return _count(await c.execute(sql("retention/empty_keyed"), states, age, limit))


async def delete_emptied(c: Connection, age: float, limit: int) -> int:
    """Emptied executions whose keys are old enough."""
    return _count(await c.execute(sql("retention/delete_emptied"), age, limit))


async def empty_events(c: Connection, age: float, limit: int) -> int:
    """Webhook events that nothing waits for."""
    return _count(await c.execute(sql("retention/empty_events"), age, limit))


def _count(tag: str) -> int:
    """`DELETE 5` → 5."""
    return int(tag.rsplit(" ", 1)[1])
