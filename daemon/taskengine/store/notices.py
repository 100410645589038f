"""Failures that wait to be reported."""

from __future__ import annotations

from typing import NamedTuple

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


class Failure(NamedTuple):
    """A failed execution that was not reported yet."""

    id: int
    type_num: str | None
    attempt: int
    last_error: str | None


async def take(c: Connection, job: str, limit: int) -> list[Failure]:
    """Take the unreported failures of a job: within the caller's transaction they are reported."""
    return [Failure(*r.values()) for r in await c.fetch(sql("notices/take"), job, limit)]
