"""What must be true of the database before this daemon may be sent work."""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


async def unlisted(c: Connection, queues: Sequence[str]) -> dict[str, int]:
    """{queue: pending rows} of queues that are not listed: nobody will ever run them."""
    return {r["queue"]: r["pending"] for r in await c.fetch(sql("executions/unlisted"), queues)}
