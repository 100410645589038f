"""Firing one definition: its executions and its `fired_until`, together or not at all.

Guarantees: one execution per slot, whoever else fires at the same time (the definition's row is
locked while its slots are inserted, and the key is unique); no slot passes without an execution, a
miss on record, or a window that has not moved; a crash anywhere leaves either everything or nothing
of a turn, and what is committed but not pushed is delivered by the sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from taskengine.errors import StoreBusy
from taskengine.lifecycle.batches import halved
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.fire_keys import Hooks, Keyed
from taskengine.lifecycle.fire_taken import settle_taken
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.reporting import tell_dispatched
from taskengine.lifecycle.slots import Slots
from taskengine.model.definition import Definition
from taskengine.model.execution import Delivery
from taskengine.model.job import JobHandle
from taskengine.store import definitions, executions, misses
from taskengine.store.execution_rows import Inserted, NewExecution
from taskengine.store.misses import NewMiss
from taskengine.store.pool import Connection
from taskengine.telemetry.events import emit

_BATCH = 1_000


class _Row(NamedTuple):
    """A slot as the row to be inserted."""

    new: NewExecution
    keyed: Keyed


@dataclass(frozen=True, slots=True)
class _Turn:
    """One turn of one definition: rows in the order of their keys, and what is passed over."""

    definition: Definition
    slots: Slots
    rows: list[_Row]
    passed: list[Keyed]


@dataclass(slots=True)
class Fired:
    """What a turn did to a definition. `moved`: its `fired_until` is where it was to be; `missed`:
    how many fire times do not run, by why."""

    moved: bool = False
    made: list[Inserted] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)
    hook_errors: int = 0
    held: list[tuple[Keyed, int]] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)

    def add(self, inserted: Sequence[Inserted]) -> None:
        self.made += inserted
        self.deliveries += [Delivery(row.id, row.queue, row.score, row.due) for row in inserted]


async def fire(parts: Parts, hooks: Hooks, definition: Definition, slots: Slots) -> Fired:
    """Fire what is due of a definition whose job is known here. Raises `StoreUnavailable`.

    Where a hook gives no key, or somebody's open transaction holds one, the other slots are
    inserted all the same, and `fired_until` stays: the slot comes again.
    """
    handle = parts.registry[definition.name]
    keyed = await hooks.keys(handle, slots.fire)
    passed = await hooks.keys(handle, [each.slot for each in slots.passed])
    turn = _Turn(definition, slots, _rows(handle, keyed), passed)
    errors = [each.error for each in keyed if each.error]
    fired = await (_beside(parts, turn) if errors else _whole(parts, turn))
    if errors:
        fired.hook_errors = len(errors)
        emit("schedule.hook_failed", task=handle.name, count=len(errors), error=errors[0])
    if fired.deliveries:
        await deliver(parts, fired.deliveries)
    _tell(turn, fired)
    return fired


def _rows(handle: JobHandle, keyed: Sequence[Keyed]) -> list[_Row]:
    good = [each for each in keyed if each.error is None]
    payload = handle.dump({}) if good else ""
    rows = [_Row(_new(handle.name, payload, each), each) for each in good]
    return sorted(rows, key=lambda row: (row.new.key, row.keyed.slot.fire_time))


def _new(job: str, payload: str, each: Keyed) -> NewExecution:
    """Runs from now on: it must not look as if it had waited since its fire time."""
    return NewExecution(
        job=job,
        key=each.key,
        type_num=each.slot.type_num,
        subject=None,
        payload=payload,
        run_at=None,
        delay=0.0,
        key_is_drawn=not each.is_own,
        scheduled_for=each.slot.fire_time,
        exclusive_key=each.exclusive_key,
    )


async def _whole(parts: Parts, turn: _Turn) -> Fired:
    """The whole turn in one transaction."""
    try:
        async with parts.store.transaction() as c:
            if not await definitions.advance(
                c, turn.definition, turn.slots.fired_until, parts.config.engine.queues
            ):
                return Fired()
            return await _inserted(c, parts, turn)
    except StoreBusy:
        return await _beside(parts, turn)


async def _inserted(c: Connection, parts: Parts, turn: _Turn) -> Fired:
    """Executions, and the record of those that do not come to be."""
    queues, check_after = parts.config.engine.queues, parts.config.recovery.check_after
    fired = Fired(moved=True)
    made: set[str] = set()
    for batch in _batches(turn.rows):
        inserted = await executions.insert(c, batch, queues, check_after)
        made.update(row.key for row in inserted)
        fired.add(inserted)
    rest = [row.keyed for row in turn.rows if row.new.key not in made]
    taken = await settle_taken(c, parts, turn.definition, rest)
    fired.deliveries += taken.deliveries
    fired.held = taken.held
    fired.missed = await _passed(c, turn) + Counter(refused=taken.refused)
    return fired


async def _passed(c: Connection, turn: _Turn) -> Counter[str]:
    """Record what is passed over; how many, by why."""
    lost: dict[str, list[NewMiss]] = {}
    for (slot, why, reason), keyed in zip(turn.slots.passed, turn.passed, strict=True):
        miss = NewMiss(slot.type_num, slot.fire_time, reason, None, keyed.key)
        lost.setdefault(why, []).append(miss)
    counts: Counter[str] = Counter()
    for why, rows in lost.items():
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            counts[why] += await misses.record(c, turn.definition.name, batch)
    if turn.slots.passed:
        counts[turn.slots.passed[0].why] += turn.slots.unlisted
    return counts


async def _beside(parts: Parts, turn: _Turn) -> Fired:
    """Insert what can be, without moving `fired_until`: the turn is not over."""
    queues, check_after = parts.config.engine.queues, parts.config.recovery.check_after
    fired = Fired()

    async def insert(batch: Sequence[NewExecution]) -> list[Inserted]:
        async with parts.store.connection() as c:
            return await executions.insert(c, batch, queues, check_after)

    async def left(_row: NewExecution, _error: Exception) -> list[Inserted]:
        return []

    for batch in _batches(turn.rows):
        fired.add(await halved(batch, insert, left))
    return fired


def _batches(rows: Sequence[_Row]) -> Iterator[list[NewExecution]]:
    for start in range(0, len(rows), _BATCH):
        yield [row.new for row in rows[start : start + _BATCH]]


def _tell(turn: _Turn, fired: Fired) -> None:
    name = turn.definition.name
    if fired.made:
        tell_dispatched([(row.queue, row.job, row.id) for row in fired.made])
        emit("schedule.fired", task=name, count=len(fired.made))
    for why, count in (+fired.missed).items():
        emit("schedule.missed", task=name, count=count, reason=why)
    for keyed, holder in fired.held:
        slot = keyed.slot
        emit(
            "schedule.held",
            task=name,
            held_by=holder,
            fire_time=slot.fire_time,
            store=slot.type_num,
        )
