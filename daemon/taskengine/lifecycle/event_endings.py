"""What the end of an execution says of the webhook event that it is about, in its own transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from taskengine.lifecycle.reporting import Told
from taskengine.model.keys import event_of
from taskengine.store import webhooks
from taskengine.store.execution_rows import Moved
from taskengine.store.pool import Connection
from taskengine.telemetry.events import emit


async def fail_events(c: Connection, batch: Sequence[Told], moved: Sequence[Moved]) -> None:
    """A job's `Discard` is its event's error, if the claim was still ours."""
    gone = {m.id for m in moved if m.move == "discarded"}
    errors = {
        event: e.outcome.error or "discarded"
        for e in batch
        if e.flight.claim.id in gone and (event := event_about(e)) is not None
    }
    if errors:
        await webhooks.fail(c, list(errors), list(errors.values()))


async def mark_events(c: Connection, batch: Sequence[Told], done: Collection[int]) -> Iterable[str]:
    """What was done (these ids) was its event's processing, too; the sources of those marked."""
    events = [
        event for e in batch if e.flight.claim.id in done and (event := event_about(e)) is not None
    ]
    if not events:
        return ()
    return (await webhooks.processed_by_success(c, sorted(events))).values()


def tell_processed(sources: Iterable[str]) -> None:
    """After the commit."""
    for source in sources:
        emit("webhook.processed", source=source)


def event_about(ended: Told) -> int | None:
    """The webhook event that the execution is about."""
    return event_of(ended.flight.claim.subject)
