"""Do Redis and Postgres say the same? The classes of divergence, and waiters of a free key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from taskengine.broker.inspection import Inspection
from taskengine.insight import divergence
from taskengine.insight.divergence import Divergence
from taskengine.insight.doctor.finding import Finding, finding
from taskengine.insight.words import plural
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Delivery
from taskengine.store import engine, executions

_KEY_SECONDS = 30.0  # the sweep wakes a free key every 15 s
_KEYS = 1000

_WORDS: Mapping[str, str] = {
    divergence.PENDING_WITHOUT_MESSAGE: "pending in {queue!r} without a message in Redis: the "
    "delivery sweep pushes them when their time to be checked comes",
    divergence.MESSAGE_WITHOUT_ROW: "in Redis for {queue!r} that no execution waits for: a claim "
    "drops them in their turn",
    divergence.PROCESSING_WITHOUT_OWNER: "reserved from {queue!r}, and nobody claims them: a daemon "
    "gives them back after the grace",
    divergence.DELAYED_PAST_DUE: "delayed in {queue!r} although their time has come: no daemon "
    "promotes them",
}


async def divergences(parts: Parts) -> list[Finding]:
    """One finding for each class and queue."""
    return list(_told(await divergence.look(parts)))


def _told(found: Divergence) -> Iterator[Finding]:
    for (kind, queue), ids in found.found.items():
        noun = "execution" if kind == divergence.PENDING_WITHOUT_MESSAGE else "message"
        how_many = f"{'at least ' if len(ids) >= divergence.MOST else ''}{plural(len(ids), noun)}"
        text = f"{how_many} {_WORDS[kind].format(queue=queue)}"
        yield finding(f"delivery.{kind}", text, queue, ids)


async def unheld_keys(parts: Parts) -> list[Finding]:
    """Whose turn it is under an exclusive key that nobody holds, and who has no message."""
    rows = await next_without_message(parts)
    if not rows:
        return []
    text = (
        f"{plural(len(rows), 'execution')} should be next under an exclusive key that nobody holds, "
        "and have no message: the delivery sweep wakes them"
    )
    return [finding("key.unheld", text, ids=[row.id for row in rows])]


async def next_without_message(parts: Parts) -> list[Delivery]:
    """The rows themselves, due for more than 30 s."""
    async with parts.store.connection() as c:
        now = await engine.now(c)
        rows = await executions.next_of_free_keys(c, parts.queues.names, _KEYS)
    before = (now.timestamp() - _KEY_SECONDS) * 1_000_000
    inspection = Inspection(parts.client, parts.keys)
    missing: list[Delivery] = []
    for queue in parts.queues.names:
        waiting = [row.delivery for row in rows if row.queue == queue and row.score < before]
        missing += await inspection.without_message(queue, waiting)
    return missing
