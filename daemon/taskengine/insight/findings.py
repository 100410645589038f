"""What both stores say of the whole installation, read at one moment and not yet judged.

Guarantees: works with every daemon down and with Redis away. Ages are seconds by the database's
clock. Raises `StoreUnavailable` where Postgres is away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskengine.insight.redis_state import RedisState, look
from taskengine.lifecycle.parts import Parts
from taskengine.model.definition import Definition
from taskengine.store import definitions, queues, reports, workers
from taskengine.store.pool import Connection
from taskengine.store.queues import Pause
from taskengine.store.reports import Neglected, QueueCounts, WebhookCounts
from taskengine.store.workers import Worker


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that has neither stopped nor been declared dead; `silence`: since its last beat."""

    name: str
    version: str
    queues: Sequence[str]
    slots: int
    draining: bool
    started_at: datetime
    silence: float
    loops: Mapping[str, Any]

    def turned(self, loop: str) -> float | None:
        """How long ago the loop's last turn ended; None where it never turned."""
        told = self.loops.get(loop)
        age = told.get("age") if isinstance(told, Mapping) else None
        return age + self.silence if isinstance(age, int | float) else None

    @property
    def direct(self) -> bool:
        """Whether it says that it claims straight from Postgres."""
        told = [loop.get("found") for loop in self.loops.values() if isinstance(loop, Mapping)]
        return any(isinstance(found, Mapping) and found.get("direct") for found in told)


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue of the list, or one that holds executions all the same."""

    counts: QueueCounts
    listed: bool
    polled: bool
    pause: Pause | None


@dataclass(frozen=True, slots=True)
class Findings:
    """What was read, before it is judged."""

    at: datetime
    postgres: str
    redis: RedisState
    daemons: Sequence[Daemon]
    silence: float
    queues: Sequence[QueueState]
    unknown_jobs: Sequence[Neglected]
    webhooks: Sequence[WebhookCounts]
    definitions: Sequence[Definition]

    @property
    def living(self) -> list[Daemon]:
        """Those that beat."""
        return [each for each in self.daemons if each.silence <= self.silence]

    @property
    def ticked(self) -> float | None:
        """Seconds since any scheduler's last tick."""
        ages = [age for each in self.living if (age := each.turned("scheduler")) is not None]
        return min(ages, default=None)


async def read(parts: Parts) -> Findings:
    """Read both stores."""
    config = parts.config
    silence = config.heartbeat.lease
    async with parts.store.connection() as c:
        version, now = await reports.server(c)
        living = await workers.living(c)
        return Findings(
            at=now,
            postgres=version,
            redis=await look(parts, c),
            daemons=[_daemon(each, now) for each in living],
            silence=silence,
            queues=await _queues(c, config.engine.queues, silence),
            unknown_jobs=await reports.unknown_jobs(c, silence),
            webhooks=await reports.webhooks(c, config.webhooks.min_age),
            definitions=await definitions.all_(c),
        )


async def read_queues(parts: Parts) -> list[QueueState]:
    """The queues alone."""
    async with parts.store.connection() as c:
        return await _queues(c, parts.config.engine.queues, parts.config.heartbeat.lease)


async def _queues(c: Connection, listed: Sequence[str], silence: float) -> list[QueueState]:
    """The listed ones in their order, then those that are not listed and hold pending rows."""
    counts = {each.queue: each for each in await reports.queues(c)}
    paused = {each.name: each for each in await queues.paused(c)}
    unpolled = {each.name for each in await reports.unpolled(c, silence)}
    unlisted = [name for name, each in counts.items() if each.pending and name not in listed]
    return [
        QueueState(
            counts.get(name) or QueueCounts(name, 0, 0, 0, 0, None),
            name in listed,
            name not in unpolled,
            paused.get(name),
        )
        for name in (*listed, *unlisted)
    ]


def _daemon(row: Worker, now: datetime) -> Daemon:
    return Daemon(
        row.name,
        row.version,
        row.queues,
        row.slots,
        row.draining,
        row.started_at,
        max(0.0, (now - row.last_beat_at).total_seconds()),
        _loops(row.loops),
    )


def _loops(text: str) -> Mapping[str, Any]:
    """A daemon of another version may write something else: then nothing is known of its loops."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
