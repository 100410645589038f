"""Dispatching a stored webhook event again: what the reconciler and an operator have in common.

The source in the configuration says which job handles an event and in which queue. Whether that job
takes a dispatch is looked up before an event is touched, so that a missing definition does not use
up an event's recoveries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taskengine.config import Source
from taskengine.lifecycle.dispatch import Request
from taskengine.lifecycle.parts import Parts
from taskengine.model.envelope import payload_of
from taskengine.model.keys import webhook_subject
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


def _why_blocked(source: Source, target: Target | None, queues: Sequence[str]) -> str | None:
    if target is None:
        return "has no definition: is its module missing in [jobs] modules, or a migration?"
    if not target.is_enabled:
        return f"is disabled; `taskengine jobs enable {target.name}` enables it"
    queue = source.queue or target.queue
    if queue not in queues:
        return f"is for queue {queue!r}, which is not in engine.queues"
    return "runs per store, but an event has no store" if target.scope == "per_store" else None
