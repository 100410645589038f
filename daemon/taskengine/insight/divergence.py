"""Divergence: where Redis and Postgres do not say the same, by class.

Guarantees: bounded (the first 5,000 of each class and queue are looked at); what is merely on its
way is not found: graces are respected, and `confirmed` keeps only what two looks have seen. Raises
`Away` where a store is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskengine.broker.inspection import Inspection
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Delivery
from taskengine.store import doctor, engine

MOST = 5000
WAIT = 1.0  # seconds between two looks: a claim and its acknowledgement take far less
_LATE = 5.0  # the promoter is at most one second late
_ENDED = ("succeeded", "failed")  # a cancelled one's message stays until its time, as it may


PENDING_WITHOUT_MESSAGE = "pending_without_message"
MESSAGE_WITHOUT_ROW = "message_without_row"
PROCESSING_WITHOUT_OWNER = "processing_without_owner"
DELAYED_PAST_DUE = "delayed_past_due"
CLASSES = (
    PENDING_WITHOUT_MESSAGE,
    MESSAGE_WITHOUT_ROW,
    PROCESSING_WITHOUT_OWNER,
    DELAYED_PAST_DUE,
)

Found = Mapping[tuple[str, str], Sequence[int | bytes]]


@dataclass(frozen=True, slots=True)
class Divergence:
    """`found`: the messages by (class, queue); `lacking`: what is to be delivered, by id."""

    found: Found
    lacking: Mapping[int, Delivery]

    def counts(self) -> Mapping[str, int]:
        """How many of each class."""
        return {
            kind: sum(len(ids) for (each, _), ids in self.found.items() if each == kind)
            for kind in CLASSES
        }


def reserved_grace(parts: Parts) -> float:
    """After so many seconds in processing an id has no owner: it should have gone back."""
    grace = parts.config.recovery.reserve_grace
    return grace + 2 * min(5.0, grace)


async def look(parts: Parts) -> Divergence:
    """One look at each listed queue; what is on its way may be in it."""
    found: dict[tuple[str, str], Sequence[int | bytes]] = {}
    lacking: dict[int, Delivery] = {}
    for queue in parts.queues.names:
        missing = await _without_message(parts, queue)
        lacking |= {each.id: each for each in missing}
        found[PENDING_WITHOUT_MESSAGE, queue] = [each.id for each in missing]
        found[MESSAGE_WITHOUT_ROW, queue] = await _without_row(parts, queue)
        found |= await _overdue(parts, queue)
    return Divergence({key: ids for key, ids in found.items() if ids}, lacking)


def confirmed(first: Divergence, second: Divergence) -> Divergence:
    """What both looks saw."""
    both = {
        key: [each for each in ids if each in seen]
        for key, ids in second.found.items()
        if (seen := frozenset(first.found.get(key, ())))
    }
    return Divergence({key: ids for key, ids in both.items() if ids}, second.lacking)


async def seen_twice(parts: Parts) -> Divergence:
    """A look, and another one where it found anything."""
    first = await look(parts)
    if not first.found:
        return first
    await parts.clock.sleep(WAIT)
    return confirmed(first, await look(parts))


async def _without_message(parts: Parts, queue: str) -> list[Delivery]:
    """Postgres first: what is claimed after that is no longer pending at the second look."""
    async with parts.store.connection() as c:
        rows = await doctor.pending(c, queue, MOST)
    return await Inspection(parts.client, parts.keys).without_message(queue, rows)


async def _without_row(parts: Parts, queue: str) -> list[int | bytes]:
    """Redis first: a row is committed before its message is pushed."""
    ids, foreign = await Inspection(parts.client, parts.keys).messages(queue, MOST)
    states: Mapping[int, str] = {}
    if ids:
        async with parts.store.connection() as c:
            states = await doctor.states(c, ids)
    gone = [each for each in ids if each not in states or states[each] in _ENDED]
    return [*gone, *foreign]


async def _overdue(parts: Parts, queue: str) -> Found:
    inspection = Inspection(parts.client, parts.keys)
    async with parts.store.connection() as c:
        now = await engine.now(c)
    late = int((now.timestamp() - _LATE) * 1_000_000)
    reserved, delayed = await asyncio.gather(
        inspection.reserved_longer(queue, reserved_grace(parts), MOST),
        inspection.delayed_until(queue, late, MOST),
    )
    return {(PROCESSING_WITHOUT_OWNER, queue): reserved, (DELAYED_PAST_DUE, queue): delayed}
