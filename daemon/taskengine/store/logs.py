"""Executions' own logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from taskengine.store.pool import Connection
from taskengine.store.statements import sql


class NewLine(NamedTuple):
    """A line to be written; `fields` is JSON text."""

    execution_id: int
    attempt: int
    at: datetime
    level: str
    message: str
    fields: str | None


class Line(NamedTuple):
    """A line as read."""

    attempt: int
    at: datetime
    level: str
    message: str
    fields: str | None


async def append(c: Connection, lines: Sequence[NewLine]) -> None:
    await c.execute(sql("logs/append"), *zip(*lines, strict=True))


async def of(c: Connection, execution_id: int, limit: int = 1000) -> list[Line]:
    """The first `limit` lines, oldest first."""
    return [Line(*r.values()) for r in await c.fetch(sql("logs/of"), execution_id, limit)]
