"""Dispatching a stored webhook event again: by the reconciler, and by an operator.

The source in the configuration says which job handles an event and in which queue. Whether that job
takes a dispatch is looked up before an event is touched, so that a missing definition does not use
up an event's recoveries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taskengine.config import Source
from taskengine.errors import InvalidSetting
from taskengine.lifecycle.dispatch import Dispatcher, Request
from taskengine.lifecycle.parts import Parts
from taskengine.model.envelope import payload_of
from taskengine.model.execution import Dispatched
from taskengine.model.keys import webhook_manual_key, webhook_subject
from taskengine.store import webhooks
from taskengine.store.webhooks import Stranded, Target


def request_for(source: Source, event: Stranded, key: str) -> Request:
    """The dispatch of an event under a key that is not the one of its ingest."""
    return Request(
        job=source.job,
        payload=payload_of(event.id, event.source, event.type),
        key=key,
        subject=webhook_subject(event.id),
        key_is_drawn=True,
        queue=source.queue,
    )


async def blocked_sources(parts: Parts) -> Mapping[str, str]:
    """{source: why its job takes nothing now}; a source that is fine is left out."""
    sources = parts.config.webhooks.sources
    async with parts.store.connection() as c:
        targets = await webhooks.targets(c, sorted({source.job for source in sources.values()}))
    queues = parts.config.engine.queues
    reasons = {
        name: _why_blocked(source, targets.get(source.job), queues)
        for name, source in sources.items()
    }
    return {name: reason for name, reason in reasons.items() if reason is not None}


async def reprocess(parts: Parts, dispatcher: Dispatcher, ids: Sequence[int]) -> list[Dispatched]:
    """An operator's replay of these events, whatever their state; in the order of their ids.

    `InvalidSetting`, before anything is touched, where one is of a source that is not configured or
    whose job takes nothing. Events that do not exist, or whose body is gone, are left out.
    """
    async with parts.store.connection() as c:
        events = await webhooks.unprocessed(c, ids=ids, limit=len(ids))
    await _check_sources(parts, {event.source for event in events})
    async with parts.store.connection() as c:
        reopened = await webhooks.reopen(c, sorted(ids), parts.config.webhooks.min_age)
    now = parts.clock.now()
    return await dispatcher.dispatch_many(
        [
            request_for(
                parts.config.webhooks.sources[event.source],
                event,
                webhook_manual_key(event.id, now, parts.rng),
            )
            for event in sorted(reopened)
        ]
    )


async def _check_sources(parts: Parts, names: set[str]) -> None:
    blocked = await blocked_sources(parts)
    for name in sorted(names):
        if name not in parts.config.webhooks.sources:
            raise InvalidSetting(f"webhooks.sources.{name} is not configured: which job is it for?")
        if name in blocked:
            job = parts.config.webhooks.sources[name].job
            raise InvalidSetting(
                f"events of {name!r} cannot be dispatched: job {job!r} {blocked[name]}"
            )


def _why_blocked(source: Source, target: Target | None, queues: Sequence[str]) -> str | None:
    if target is None:
        return "has no definition: is its module missing in [jobs] modules, or a migration?"
    if not target.is_enabled:
        return f"is disabled; `taskengine jobs enable {target.name}` enables it"
    queue = source.queue or target.queue
    if queue not in queues:
        return f"is for queue {queue!r}, which is not in engine.queues"
    return "runs per store, but an event has no store" if target.scope == "per_store" else None
