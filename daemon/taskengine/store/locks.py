"""Who is behind somebody's lock: asked where a batch was refused for one."""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


async def unlocked(c: Connection, ids: Sequence[int]) -> set[int]:
    """Those of these executions that nobody has locked."""
    return {r[0] for r in await c.fetch(sql("executions/unlocked"), ids)}
