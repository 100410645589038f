"""An operator has webhook events processed again: chosen, judged one by one, dispatched.

Un-gated: neither age nor number of recoveries counts. Guarantees: one event that cannot be
dispatched (its source is not configured, its job takes nothing, its body is gone) holds up none of
the others and is not touched; every dispatch has a key of its own, `webhook-manual:<id>:…`, so that
an execution that failed does not stand in its way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from taskengine.lifecycle.dispatch import Dispatcher
from taskengine.lifecycle.event_dispatch import blocked_sources, request_for
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Dispatched
from taskengine.model.keys import webhook_manual_key
from taskengine.store import webhooks
from taskengine.store.webhooks import Event

_GONE = "its body was removed by retention"


class Reprocessed(NamedTuple):
    """An event and what became of it: `problem` says why it was refused, `sent` its execution.

    Neither: a dry run, it would be dispatched.
    """

    event: Event
    problem: str | None
    sent: Dispatched | None


async def reprocess(
    parts: Parts,
    dispatcher: Dispatcher,
    *,
    ids: Sequence[int] | None = None,
    source: str | None = None,
    limit: int = 100,
    dry_run: bool = False,
) -> list[Reprocessed]:
    """The events named, whatever their state; without `ids` those received and not processed."""
    async with parts.store.connection() as c:
        events = await webhooks.unprocessed(c, ids=ids, source=source, limit=limit)
    if not events:
        return []
    problems = await _problems(parts, events)
    good = [event.id for event in events if event.id not in problems]
    sent = {} if dry_run else await _dispatch(parts, dispatcher, good)
    return [
        Reprocessed(event, _problem(event, problems, sent, dry_run), sent.get(event.id))
        for event in events
    ]


async def _problems(parts: Parts, events: Sequence[Event]) -> dict[int, str]:
    """Why events cannot be dispatched: looked up before anything is touched."""
    blocked = await blocked_sources(parts)
    found = {event.id: _judge(parts, event, blocked) for event in events}
    return {event_id: problem for event_id, problem in found.items() if problem is not None}


def _judge(parts: Parts, event: Event, blocked: Mapping[str, str]) -> str | None:
    source = parts.config.webhooks.sources.get(event.source)
    if source is None:
        return f"webhooks.sources.{event.source} is not configured: which job is it for?"
    if event.source in blocked:
        return f"job {source.job!r} {blocked[event.source]}"
    return _GONE if event.size is None else None


async def _dispatch(
    parts: Parts, dispatcher: Dispatcher, ids: Sequence[int]
) -> dict[int, Dispatched]:
    """By event; one whose body went meanwhile is missing."""
    settings, now = parts.config.webhooks, parts.clock.now()
    async with parts.store.connection() as c:
        events = sorted(await webhooks.reopen(c, sorted(ids), settings.min_age))
    requests = [
        request_for(
            settings.sources[event.source], event, webhook_manual_key(event.id, now, parts.rng)
        )
        for event in events
    ]
    answers = await dispatcher.dispatch_many(requests)
    return {event.id: sent for event, sent in zip(events, answers, strict=True)}


def _problem(
    event: Event, problems: Mapping[int, str], sent: Mapping[int, Dispatched], dry_run: bool
) -> str | None:
    if event.id in problems:
        return problems[event.id]
    return None if dry_run or event.id in sent else _GONE
