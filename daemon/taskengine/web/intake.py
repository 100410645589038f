"""A genuine webhook, stored: the event and its execution in one transaction, then its message.

Guarantees: what is answered with 2xx is committed; an event comes in once, however often it is
sent; a duplicate whose execution still waits has its message sent again; Redis away is no failure;
a job that cannot take it (missing, disabled, its queue unlisted) keeps the event, and the
reconciler dispatches it once the job can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taskengine.config import Source
from taskengine.errors import StoreBusy, TaskEngineError
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.door import refusal
from taskengine.lifecycle.exclusive import given_or_own
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.reporting import tell_dispatched
from taskengine.model.envelope import payload_of
from taskengine.model.execution import Delivery
from taskengine.model.keys import webhook_key, webhook_subject
from taskengine.store import executions, webhooks
from taskengine.store.execution_rows import Inserted, NewExecution
from taskengine.store.pool import Connection
from taskengine.store.webhooks import NewEvent
from taskengine.telemetry.events import emit


class Kept(NamedTuple):
    """What became of it: accepted, duplicate, ignored, invalid or undispatched."""

    result: str
    event: int
    deliveries: Sequence[Delivery] = ()
    made: Inserted | None = None
    problem: str = ""


async def keep(parts: Parts, source: Source, event: NewEvent) -> Kept:
    """Store it, or find it; raises `Away` where Postgres cannot. Nothing is half-written."""
    async with parts.store.transaction() as c:
        kept = await _store(c, parts, source, event)
    _tell(source, event, kept)
    if kept.deliveries:
        await _deliver(parts, kept.deliveries)
    return kept


async def _store(c: Connection, parts: Parts, source: Source, event: NewEvent) -> Kept:
    event_id = await webhooks.insert(c, event)
    if event_id is None:
        return await _found(c, event)
    if event.status != "received":
        return Kept(event.status, event_id, problem=event.error or "")
    try:
        row = _execution(parts, event_id, source, event)
    except TaskEngineError as error:  # of the job's exclusive_key: the event is kept all the same
        return Kept("undispatched", event_id, problem=str(error))
    config = parts.config
    made = await executions.insert(c, [row], config.engine.queues, config.recovery.check_after)
    if not made:
        return Kept("undispatched", event_id, problem=await _why(c, row, config.engine.queues))
    new = made[0]
    return Kept("accepted", event_id, [Delivery(new.id, new.queue, new.score, new.due)], new)


def _execution(parts: Parts, event_id: int, source: Source, event: NewEvent) -> NewExecution:
    payload = payload_of(event_id, event.source, event.type)
    return NewExecution(
        job=source.job,
        key=webhook_key(event_id),
        type_num=None,
        subject=webhook_subject(event_id),
        payload=payload,
        run_at=None,
        delay=0.0,
        key_is_drawn=True,
        scheduled_for=None,
        queue=source.queue,
        exclusive_key=given_or_own(None, parts.registry.get(source.job), payload, None),
    )


async def _found(c: Connection, event: NewEvent) -> Kept:
    """Behind an insert that did nothing: it sees what another transaction has committed since."""
    found = await webhooks.stored(c, event.source, event.event_id, event.body_sha256)
    if found is None:
        raise StoreBusy(f"an event of {event.source} was removed meanwhile")
    problem = "" if found.same_body else "the same id with another body: the first one stays"
    return Kept("duplicate", found.id, found.waiting, problem=problem)


async def _why(c: Connection, row: NewExecution, queues: Sequence[str]) -> str:
    """Why the job took no execution, in the words of the door."""
    (found,) = await executions.found(c, [row])
    return str(refusal(row, found, queues))


async def _deliver(parts: Parts, deliveries: Sequence[Delivery]) -> None:
    """The row is committed: no trouble with its message may become the sender's."""
    try:
        await deliver(parts, deliveries)
    except Exception as error:
        emit("execution.undelivered", count=len(deliveries), error=error)


def _tell(source: Source, event: NewEvent, kept: Kept) -> None:
    fields = {"source": event.source, "event_id": kept.event, "task": source.job}
    emit(f"webhook.{kept.result}", error=kept.problem or None, **fields)
    if kept.result == "duplicate" and kept.problem:
        emit("webhook.conflict", **fields)
    if kept.made is not None:
        made = kept.made
        tell_dispatched([(made.queue, made.job, made.id)])
