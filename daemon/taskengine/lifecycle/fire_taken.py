"""Slots whose key was taken already: is the work done, under way, or does it stand still?

Guarantees: a fire time that found its key held by a failed or cancelled execution of another fire
time (a key of the job's own), or of somebody else's dispatch, is on record as "not run: held by N"
or has that execution redriven, by the definition's `when_held`; a pending one is delivered again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from taskengine.lifecycle.fire_keys import Keyed
from taskengine.lifecycle.parts import Parts
from taskengine.model.definition import Definition
from taskengine.model.execution import Delivery
from taskengine.store import executions, misses
from taskengine.store.misses import Holder, NewMiss
from taskengine.store.pool import Connection

_REFUSED = "refused at the insert: its store was closed, or its payload is over max_payload_bytes"


@dataclass(frozen=True, slots=True)
class Taken:
    """What the slots found. `held` pairs a slot with the execution that keeps it from running."""

    deliveries: list[Delivery] = field(default_factory=list)
    held: list[tuple[Keyed, int]] = field(default_factory=list)
    refused: int = 0


async def settle_taken(
    c: Connection, parts: Parts, definition: Definition, rest: Sequence[Keyed]
) -> Taken:
    """Look at what stands behind slots that inserted nothing, in the transaction of their turn."""
    if not rest:
        return Taken()
    found = await misses.holders(c, definition.name, sorted({each.key for each in rest}))
    standing = [each for each in rest if _stands_still(each, found.get(each.key))]
    redriven: Mapping[int, Delivery] = {}
    if standing and definition.settings.when_held == "redrive":
        redriven = await _redrive(c, parts, sorted({found[each.key].id for each in standing}))
    held = [(each, found[each.key].id) for each in standing if found[each.key].id not in redriven]
    refused = [_miss(each, _REFUSED, None) for each in rest if each.key not in found]
    unrun = [_miss(each, f"not run: held by {holder}", holder) for each, holder in held]
    await misses.record(c, definition.name, unrun)
    pending = [h for h in found.values() if h.state == "pending"]
    again = [Delivery(h.id, h.queue, h.score, h.due) for h in pending]
    return Taken(
        [*redriven.values(), *again], held, await misses.record(c, definition.name, refused)
    )


def _stands_still(each: Keyed, holder: Holder | None) -> bool:
    """An execution that was made for this very fire time has had its run, however that ended."""
    if holder is None or holder.state not in ("failed", "cancelled"):
        return False
    return holder.scheduled_for != each.slot.fire_time


async def _redrive(c: Connection, parts: Parts, ids: Sequence[int]) -> dict[int, Delivery]:
    """Those that run again; one emptied by retention cannot."""
    check_after = parts.config.recovery.check_after
    answers = await executions.redrive(
        c, ids, "scheduler", from_start=False, check_after=check_after
    )
    return {
        a.id: Delivery(a.id, a.queue, a.score, True)
        for a in answers
        if a.queue is not None and a.score is not None
    }


def _miss(each: Keyed, reason: str, execution_id: int | None) -> NewMiss:
    return NewMiss(each.slot.type_num, each.slot.fire_time, reason, execution_id, None)
