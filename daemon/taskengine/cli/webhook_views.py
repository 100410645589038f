"""Webhook events for the command line."""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.cli import out
from taskengine.cli.failure import NOT_FOUND, OK, REFUSED
from taskengine.lifecycle.reprocess import Reprocessed
from taskengine.store.webhooks import Event

COLUMNS = [
    out.Column[Event]("id", lambda each: each.id, right=True),
    out.Column[Event]("source", lambda each: each.source),
    out.Column[Event]("event", lambda each: each.event_id),
    out.Column[Event]("type", lambda each: each.type),
    out.Column[Event]("status", lambda each: each.status),
    out.Column[Event]("received", lambda each: each.received_at),
    out.Column[Event]("processed", lambda each: each.processed_at),
    out.Column[Event]("recoveries", lambda each: each.recoveries, right=True),
    out.Column[Event]("error", lambda each: each.error),
]


def _answer(each: Reprocessed) -> str:
    if each.problem is not None:
        return "refused"
    return "dispatched" if each.sent else "would be dispatched"


REPROCESSED = [
    out.Column[Reprocessed]("id", lambda each: each.event.id, right=True),
    out.Column[Reprocessed]("source", lambda each: each.event.source),
    out.Column[Reprocessed]("type", lambda each: each.event.type),
    out.Column[Reprocessed]("received", lambda each: each.event.received_at),
    out.Column[Reprocessed]("answer", _answer),
    out.Column[Reprocessed](
        "execution", lambda each: each.sent.execution_id if each.sent else None, right=True
    ),
    out.Column[Reprocessed]("problem", lambda each: each.problem),
]


def reprocessed_shape(each: Reprocessed) -> dict[str, object]:
    """The JSON object of an event that was to be processed again."""
    return {
        "id": each.event.id,
        "source": each.event.source,
        "type": each.event.type,
        "received_at": each.event.received_at,
        "answer": _answer(each),
        "execution_id": each.sent.execution_id if each.sent else None,
        "delivered": each.sent.delivered if each.sent else None,
        "problem": each.problem,
    }


def status(found: Sequence[Reprocessed], ids: Sequence[int]) -> int:
    """The exit status; events that were named and do not exist are told of."""
    missing = sorted(set(ids) - {each.event.id for each in found})
    for event_id in missing:
        out.note(f"no webhook event {event_id}")
    if any(each.problem for each in found):
        return REFUSED
    return NOT_FOUND if missing else OK
