"""What the database holds, counted: for `status`, the metrics and whoever must raise an alarm.

Guarantees: quick beside ten million rows of history, because only rows that live or went wrong are
looked at, each kind by an index of its own (a test asks for the plans). Ages are in seconds of the
database's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from taskengine.store.pool import Connection
from taskengine.store.statements import sql

DAY = 86_400.0


class QueueCounts(NamedTuple):
    """One queue, listed or not; `oldest`: the age of its oldest due row, None where none is due."""

    queue: str
    waiting: int
    delayed: int
    running: int
    failed: int
    oldest: float | None

    @property
    def pending(self) -> int:
        return self.waiting + self.delayed


class Neglected(NamedTuple):
    """A job or a queue whose due executions nobody can run now, and the age of the oldest."""

    name: str
    waiting: int
    oldest: float


class WebhookCounts(NamedTuple):
    """A source's events: unprocessed, stranded among them, and the age of the oldest."""

    source: str
    unprocessed: int
    stranded: int
    oldest: float


async def queues(c: Connection, failed_within: float = DAY) -> list[QueueCounts]:
    """Every queue that holds something, those included that are listed nowhere."""
    rows = await c.fetch(sql("reports/queues"), failed_within)
    return [QueueCounts(*r.values()) for r in rows]


async def unlisted(c: Connection, listed: Sequence[str]) -> list[QueueCounts]:
    """Queues that hold pending executions and are not listed: nobody will ever run these."""
    return [each for each in await queues(c) if each.pending and each.queue not in listed]


async def unknown_jobs(c: Connection, silence: float) -> list[Neglected]:
    """Jobs with due rows that no daemon knows which has beaten within `silence` seconds."""
    return [Neglected(*r.values()) for r in await c.fetch(sql("reports/unknown_jobs"), silence)]


async def unpolled(c: Connection, silence: float) -> list[Neglected]:
    """Queues with due rows, not paused, that no such daemon polls: pushed but not polled."""
    return [Neglected(*r.values()) for r in await c.fetch(sql("reports/unpolled"), silence)]


async def quarantined(c: Connection, limit: int, within: float = DAY) -> dict[str, int]:
    """Executions of the last day by queue that nobody can know to be done; `limit` are looked at."""
    rows = await c.fetch(sql("reports/quarantined"), within, limit)
    return {r["name"]: r["waiting"] for r in rows}


async def webhooks(c: Connection, min_age: float) -> list[WebhookCounts]:
    """Sources with unprocessed events; stranded: older than `min_age`, and nobody's work."""
    return [WebhookCounts(*r.values()) for r in await c.fetch(sql("reports/webhooks"), min_age)]


async def failed(c: Connection, job: str | None, limit: int) -> list[int]:
    """Failed executions that can run again, those that failed first first."""
    return [r["id"] for r in await c.fetch(sql("reports/failed"), job, limit)]


async def server(c: Connection) -> tuple[str, datetime]:
    """(version of Postgres, its clock)."""
    row = await c.fetchrow(sql("reports/server"))
    assert row is not None  # noqa: S101  a select without from
    return row["version"].split()[0], row["now"]
