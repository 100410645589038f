"""dispatch: the row first, then its message.

Guarantees: one row per (job, key), however dispatches race (I3); a dispatch that finds its row
pending delivers it again (I5); Redis away is no failure; one caller's open transaction holds up
nobody else; repeating after a lost reply is safe, because every dispatch has its key before its
insert.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from taskengine.errors import PayloadError, StoreBusy, StoreUnavailable, TaskEngineError
from taskengine.lifecycle.batches import Coalescer, halved
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.door import refusal
from taskengine.lifecycle.exclusive import given_or_own, stores_of
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.reporting import tell_dispatched
from taskengine.model.execution import Delivery, Dispatched, State
from taskengine.model.keys import ManualKeys, check_key, store_key
from taskengine.model.surroundings import StoreInfo
from taskengine.store import executions
from taskengine.store.execution_rows import Found, Inserted, NewExecution

_BATCH = 1000
_LOST_REPLIES = (0.05, 0.2)  # seconds before each repeat
_LOCKED_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Request:
    """One dispatch. `payload` is JSON text; `delay` seconds, unless `run_at` is given; `queue` and
    `exclusive_key` rule over the job's own."""

    job: str
    payload: str = "{}"
    key: str | None = None
    type_num: str | None = None
    subject: str | None = None
    run_at: datetime | None = None
    delay: float = 0.0
    scheduled_for: datetime | None = None
    key_is_drawn: bool = False
    queue: str | None = None
    exclusive_key: str | None = None


class _Answer(NamedTuple):
    """What the insert or the look-up said of one row."""

    dispatched: Dispatched
    delivery: Delivery | None


class Dispatcher:
    """Dispatches singly (coalesced) and in bulk."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._coalescer = Coalescer[NewExecution, Dispatched](self._dispatch_batch)

    async def dispatch(self, request: Request) -> Dispatched:
        """One execution. Raises what the door refuses (see "Bad input") and `StoreUnavailable`."""
        (row,) = await self._rows([request])
        try:
            answer = await self._coalescer.submit(row)
        except StoreBusy as error:
            answer = _raised(await self._alone(row, error))
        return _ours(request, answer)

    async def dispatch_many(self, requests: Sequence[Request]) -> list[Dispatched]:
        """Many, a thousand rows a statement, in their order; the first refusal is raised.

        One batch is delivered while the next is inserted. Where one is refused, all others are
        dispatched nevertheless: give keys, and the repeat is harmless.
        """
        rows = await self._rows(requests)
        batches = [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]
        answers: list[Dispatched | Exception] = []
        for i in range(0, len(batches), 2):
            for batch in await asyncio.gather(*map(self._dispatch_batch, batches[i : i + 2])):
                answers += batch
        for i, answer in enumerate(answers):
            if isinstance(answer, StoreBusy):
                answers[i] = await self._alone(rows[i], answer)
        return [_ours(r, _raised(answer)) for r, answer in zip(requests, answers, strict=True)]

    async def _rows(self, requests: Sequence[Request]) -> list[NewExecution]:
        draw = ManualKeys(self._parts.clock.now(), self._parts.rng)
        stores = await stores_of(self._parts.store, self._parts.registry, requests)
        return [self._row(request, draw, stores) for request in requests]

    def _row(
        self, request: Request, draw: ManualKeys, stores: Mapping[str, StoreInfo]
    ) -> NewExecution:
        key = request.key
        drawn = key is None
        if key is None:
            key = draw.draw(request.job)
        if request.type_num is not None:
            key = store_key(key, request.type_num)
        elif not drawn:
            check_key(key)
        if request.subject is not None:
            check_key(request.subject, "subject")
        return NewExecution(
            request.job,
            key,
            request.type_num,
            request.subject,
            request.payload,
            request.run_at,
            request.delay,
            drawn or request.key_is_drawn,
            request.scheduled_for,
            request.queue,
            self._exclusive(request, stores),
        )

    def _exclusive(self, request: Request, stores: Mapping[str, StoreInfo]) -> str | None:
        store = stores.get(request.type_num) if request.type_num is not None else None
        if store is None and request.type_num is not None and request.exclusive_key is None:
            return None  # no hook is asked, or the insert refuses the store
        handle = self._parts.registry.get(request.job)
        return given_or_own(request.exclusive_key, handle, request.payload, store)

    async def _dispatch_batch(self, rows: Sequence[NewExecution]) -> list[Dispatched | Exception]:
        """Insert, look up what was there, deliver, answer in the order given."""
        order = sorted(range(len(rows)), key=lambda i: (rows[i].job, rows[i].key))
        answers = await self._insert([rows[i] for i in order])
        deliveries = [a.delivery for a in answers if isinstance(a, _Answer) and a.delivery]
        delivered = await deliver(self._parts, deliveries) if deliveries else True
        _tell(answers, [rows[i] for i in order])
        out: list[Dispatched | Exception] = [StoreUnavailable("never")] * len(rows)
        for i, answer in zip(order, answers, strict=True):
            out[i] = answer if isinstance(answer, Exception) else _delivered(answer, delivered)
        return out

    async def _insert(self, rows: Sequence[NewExecution]) -> list[_Answer | Exception]:
        return await halved(rows, self._insert_repeatedly, self._insert_alone)

    async def _insert_repeatedly(self, rows: Sequence[NewExecution]) -> list[_Answer | Exception]:
        """A lost reply is answered by repeating: the keys are drawn already."""
        for pause in _LOST_REPLIES:
            try:
                return await self._insert_once(rows)
            except StoreUnavailable:
                await self._parts.clock.sleep(pause)
        return await self._insert_once(rows)

    async def _insert_once(self, rows: Sequence[NewExecution]) -> list[_Answer | Exception]:
        config = self._parts.config
        queues, check_after = config.engine.queues, config.recovery.check_after
        async with self._parts.store.connection() as c:
            inserted = await executions.insert(c, rows, queues, check_after)
            made = {(row.job, row.key): row for row in inserted}
            if len(made) == len(rows):
                return [_created(made[row.job, row.key]) for row in rows]
            rest = [row for row in rows if (row.job, row.key) not in made]
            seen = dict(zip(rest, await executions.found(c, rest), strict=True))
        answers: list[_Answer | Exception] = []
        for row in rows:
            new = made.pop((row.job, row.key), None)
            if new is not None:
                answers.append(_created(new))
            elif row in seen:
                answers.append(_existing(row, seen[row], queues))
            else:  # the same key twice in one batch: the first one made it
                answers.append(_twice(row, inserted))
        return answers

    async def _insert_alone(self, _: NewExecution, error: Exception) -> list[_Answer | Exception]:
        """A row that Postgres refuses; or one behind a lock, which its own caller waits for."""
        if isinstance(error, StoreBusy):
            return [error]
        return [PayloadError("$", f"Postgres refuses it: {error}")]

    async def _alone(self, row: NewExecution, error: Exception) -> Dispatched | Exception:
        """Behind somebody's open transaction, or removed meanwhile: again, without company."""
        end = self._parts.clock.monotonic() + _LOCKED_SECONDS
        answer: Dispatched | Exception = error
        while isinstance(answer, StoreBusy) and self._parts.clock.monotonic() < end:
            await asyncio.sleep(0)
            answer = (await self._dispatch_batch([row]))[0]
        return answer


def _tell(answers: Sequence[_Answer | Exception], rows: Sequence[NewExecution]) -> None:
    told = [
        (answer.delivery.queue, row.job, answer.dispatched.execution_id)
        for answer, row in zip(answers, rows, strict=True)
        if isinstance(answer, _Answer) and answer.dispatched.created and answer.delivery
    ]
    if told:
        tell_dispatched(told)


def _raised(answer: Dispatched | Exception) -> Dispatched:
    if isinstance(answer, Exception):
        raise answer
    return answer


def _ours(request: Request, answer: Dispatched) -> Dispatched:
    """A key that was drawn for this very request is nobody else's: where its row was found, an
    insert whose reply was lost had made it. (Of a given key nobody can know that.)"""
    return answer if request.key is not None else answer._replace(created=True)


def _created(row: Inserted) -> _Answer:
    dispatched = Dispatched(row.id, True, State.PENDING, True, row.key)
    return _Answer(dispatched, Delivery(row.id, row.queue, row.score, row.due))


def _twice(row: NewExecution, inserted: Sequence[Inserted]) -> _Answer:
    first = next(i for i in inserted if (i.job, i.key) == (row.job, row.key))
    return _Answer(Dispatched(first.id, False, State.PENDING, True, row.key), None)


def _existing(row: NewExecution, seen: Found, queues: Sequence[str]) -> _Answer | TaskEngineError:
    """The execution that holds the key, delivered again if it is pending; or the door's refusal."""
    if seen.id is None or seen.state is None:
        return refusal(row, seen, queues)
    state = State(seen.state)
    delivery = None
    if state is State.PENDING and seen.queue is not None and seen.score is not None:
        delivery = Delivery(seen.id, seen.queue, seen.score, bool(seen.due))
    dispatched = Dispatched(seen.id, False, state, delivery is not None, row.key)
    return _Answer(dispatched, delivery)


def _delivered(answer: _Answer, delivered: bool) -> Dispatched:
    found = answer.dispatched
    if delivered or not found.delivered:
        return found
    return Dispatched(found.execution_id, found.created, found.state, False, found.key)
