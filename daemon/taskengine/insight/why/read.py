"""Reads what `why` needs of both stores.

Guarantees: Postgres is read at one moment, Redis right after it within the same transaction; where
the two would make a lost message of one that has only moved on meanwhile, both are read again.
Raises `ExecutionNotFound`, and `StoreUnavailable` where Postgres is away.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from taskengine.broker.queue import Place
from taskengine.errors import BrokerUnavailable, ExecutionNotFound
from taskengine.insight.redis_state import AWAY, OFF, look
from taskengine.insight.why.facts import Daemon, Facts, Settings
from taskengine.lifecycle.parts import Parts
from taskengine.store import queues, why, workers
from taskengine.store.pool import Connection
from taskengine.store.why import Load
from taskengine.store.workers import Worker

_LINES = 50  # of the history, the last ones


async def read(parts: Parts, execution_id: int) -> Facts:
    """The facts of one execution."""
    facts = await _read(parts, execution_id)
    if facts.row.state == "pending" and facts.place is not None and facts.place.nowhere:
        return await _read(parts, execution_id)
    return facts


async def _read(parts: Parts, execution_id: int) -> Facts:
    async with parts.store.transaction() as c:
        await why.one_moment(c)
        row = await why.row(c, execution_id)
        if row is None:
            raise ExecutionNotFound(execution_id)
        facts = Facts(
            row=row,
            history=await why.history(c, execution_id, _LINES),
            moves=await why.moves(c, execution_id),
            daemons=await _daemons(c, row.at),
            settings=_settings(parts),
            redis=await look(parts, c),
        )
        return await _pending(parts, c, facts) if row.state == "pending" else facts


async def _pending(parts: Parts, c: Connection, facts: Facts) -> Facts:
    row, direct = facts.row, facts.redis.memory in (OFF, AWAY)
    names = {*facts.settings.queues, row.queue}
    return replace(
        facts,
        paused=[each.name for each in await queues.paused(c)],
        lines=await why.lines(c, sorted(names), row) if direct else None,
        place=None if direct else await _place(parts, facts),
        pace=await why.pace(c, row.queue),
        key=await why.key(c, row) if row.exclusive_key is not None else None,
    )


async def _place(parts: Parts, facts: Facts) -> Place | None:
    """Unknown where a key of its queue holds something else."""
    if any(each.queue == facts.row.queue for each in facts.redis.strange):
        return None
    try:
        return await parts.queues.place(facts.row.queue, facts.row.id)
    except BrokerUnavailable:
        return None


async def _daemons(c: Connection, now: datetime) -> Sequence[Daemon]:
    loads = await why.running(c)
    living = await workers.living(c)
    return [_daemon(each, loads.get(each.id, Load(0, 0, 0)), now) for each in living]


def _daemon(row: Worker, load: Load, now: datetime) -> Daemon:
    silence = max(0.0, (now - row.last_beat_at).total_seconds())
    return Daemon(
        name=row.name,
        queues=row.queues,
        jobs=row.jobs,
        slots=row.slots,
        draining=row.draining,
        direct=_is_direct(row.loops),
        silence=silence,
        load=load,
    )


def _is_direct(loops: str) -> bool:
    """A daemon of another version may write something else: then nothing is known of its loops."""
    try:
        told = json.loads(loops)
        return any(each.get("found", {}).get("direct") for each in told.values())
    except (ValueError, AttributeError):
        return False


def _settings(parts: Parts) -> Settings:
    config = parts.config
    return Settings(
        queues=config.engine.queues,
        lease=config.heartbeat.lease,
        check_after=config.recovery.check_after,
        sweep=config.recovery.delivery_sweep,
        divergence=config.recovery.divergence,
        reserve_grace=config.recovery.reserve_grace,
    )
