"""The webhook event that an execution is about, as its job sees it (`ctx.event`).

Guarantees of `processing()`: the effect, the check of the claim and `processed_at` are one
transaction, so an event takes effect once however often it is dispatched; two executions of one
event wait for each other; the execution's own row is locked only at the very end, so progress and
cursor can be written meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from taskengine.errors import TaskEngineError
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Claim
from taskengine.model.keys import event_of
from taskengine.model.payload import JsonValue, loads_strict
from taskengine.store import webhooks
from taskengine.store.pool import Connection
from taskengine.telemetry.events import emit


class AlreadyProcessed(TaskEngineError):
    """An earlier attempt, or another execution, has processed the event: its effect is committed.

    Raised on entering `processing()`. There is nothing left to do: the run counts as succeeded.
    """

    def __init__(self, event_id: int) -> None:
        super().__init__(event_id)
        self.event_id = event_id

    def __str__(self) -> str:
        return f"webhook event {self.event_id} has been processed already"


class WebhookEvent:
    """One event under one claim. Times are aware; `occurred_at` is the sender's own, if any."""

    def __init__(self, parts: Parts, claim: Claim, event: webhooks.Loaded) -> None:
        self._store = parts.store
        self._execution_id = claim.id
        self._token = claim.token
        self._processed_here = False
        self.id = event.id
        self.source = event.source
        self.type = event.type
        self.body = event.body or b""
        self.received_at = event.received_at
        self.occurred_at = event.occurred_at

    def json(self) -> JsonValue:
        """The body's value, digit for digit; `PayloadError` where it is none (or was removed)."""
        return loads_strict(self.body)

    @asynccontextmanager
    async def processing(self) -> AsyncIterator[Connection]:
        """A transaction on the engine's database that ends with `processed_at` set.

        Raises `AlreadyProcessed` before the body, `ClaimLost` before or after it: then nothing of
        it is kept. Effects elsewhere need `ctx.idempotency_key`.
        """
        failure: Exception | None = None
        try:
            async with self._store.transaction() as c:
                await self._lock(c)
                try:
                    yield c
                except Exception as error:
                    raise _InBody(error) from error
                await webhooks.processed(c, self.id, self._execution_id, self._token)
        except _InBody as wrapped:
            failure = wrapped.error
        if failure is not None:
            raise failure
        self._processed_here = True
        emit("webhook.processed", source=self.source)

    async def _lock(self, c: Connection) -> None:
        processed_at = await webhooks.lock(c, self.id, self._execution_id, self._token)
        if processed_at is not None and not self._processed_here:
            raise AlreadyProcessed(self.id)


class _InBody(TaskEngineError):
    """Carries the job's own error through the store, which would take an OSError for its own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


async def load_events(parts: Parts, claims: Sequence[Claim]) -> dict[int, WebhookEvent]:
    """The events that these claims are about, by the claim's id: one statement, or none."""
    subjects = {c.id: event_of(c.subject) for c in claims}
    wanted = {id_: event for id_, event in subjects.items() if event}
    if not wanted:
        return {}
    async with parts.store.connection() as c:
        rows = await webhooks.get(c, sorted(set(wanted.values())))
    found = {row.id: row for row in rows}
    return {
        claim.id: WebhookEvent(parts, claim, found[wanted[claim.id]])
        for claim in claims
        if wanted.get(claim.id) in found
    }
