"""Queues for the command line: paused, resumed, shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taskengine.broker.wake import publish
from taskengine.cli import out
from taskengine.cli.session import operator
from taskengine.cli.words import span
from taskengine.client import TaskEngine
from taskengine.errors import BrokerUnavailable, UnknownQueue
from taskengine.insight.findings import QueueState
from taskengine.store import queues


class Change(NamedTuple):
    """What became of a queue."""

    queue: str
    answer: str


CHANGES = [
    out.Column[Change]("queue", lambda each: each.queue),
    out.Column[Change]("answer", lambda each: each.answer),
]


def _name(each: QueueState) -> str:
    marks = [] if each.listed else ["not listed"]
    marks += ["paused"] if each.pause else []
    marks += [] if each.polled else ["not polled"]
    return each.counts.queue + (f" ({', '.join(marks)})" if marks else "")


COLUMNS = [
    out.Column[QueueState]("queue", _name),
    out.Column[QueueState]("waiting", lambda each: each.counts.waiting, right=True),
    out.Column[QueueState]("oldest", lambda each: span(each.counts.oldest), right=True),
    out.Column[QueueState]("delayed", lambda each: each.counts.delayed, right=True),
    out.Column[QueueState]("running", lambda each: each.counts.running, right=True),
    out.Column[QueueState]("failed 24 h", lambda each: each.counts.failed, right=True),
]


def shape(each: QueueState) -> dict[str, object]:
    """The JSON object of a queue."""
    counts, pause_ = each.counts, each.pause
    return {
        "queue": counts.queue,
        "waiting": counts.waiting,
        "oldest_seconds": counts.oldest,
        "delayed": counts.delayed,
        "running": counts.running,
        "failed_24h": counts.failed,
        "listed": each.listed,
        "polled": each.polled,
        "paused_at": pause_.paused_at if pause_ else None,
        "paused_by": pause_.paused_by if pause_ else None,
        "pause_reason": pause_.pause_reason if pause_ else None,
    }


async def pause(engine: TaskEngine, names: Sequence[str], reason: str) -> list[Change]:
    """Pause all of them, or none where one is not listed."""
    _check(engine, names)
    async with engine.parts.store.transaction() as c:
        for name in sorted(set(names)):
            await queues.pause(c, name, operator(), reason)
    return [Change(name, "paused") for name in dict.fromkeys(names)]


async def resume(engine: TaskEngine, names: Sequence[str]) -> list[Change]:
    """Resume, and wake the workers, so that they look at once and not from their next beat on.

    A queue that was paused and has left the list since can be resumed, too.
    """
    async with engine.parts.store.connection() as c:
        paused = {each.name for each in await queues.paused(c)}
    _check(engine, [name for name in names if name not in paused])
    async with engine.parts.store.transaction() as c:
        resumed = {name: await queues.resume(c, name) for name in sorted(set(names))}
    if any(resumed.values()):
        await _wake(engine)
    return [
        Change(name, "resumed" if resumed[name] else "was not paused")
        for name in dict.fromkeys(names)
    ]


async def _wake(engine: TaskEngine) -> None:
    """Naming no queue: a push names its own, and must wake nobody for one that is paused."""
    try:
        await publish(engine.parts.client, engine.parts.keys.wake)
    except BrokerUnavailable:
        out.note("Redis is away: workers see it at their next beat, within seconds")


def _check(engine: TaskEngine, names: Sequence[str]) -> None:
    listed = engine.parts.config.engine.queues
    for name in names:
        if name not in listed:
            raise UnknownQueue(name, listed)
