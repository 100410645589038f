"""The reconciler of stranded webhook events: received, and not processed by anybody.

What it refuses to touch: events that are fresh, processed or marked; events that a pending or
running execution names as its subject; events whose job takes nothing now (that is one alert, and
neither touched nor counted). An event is touched, and its next recovery moved on, before it is
dispatched; each dispatch has a key of its own minute, never the one of the ingest, which a failed
execution may hold. A turn is capped; after `max_recoveries` an event is marked, with one notice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from taskengine.errors import TaskEngineError, is_away
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.dispatch import Dispatcher
from taskengine.lifecycle.event_dispatch import blocked_sources, request_for
from taskengine.lifecycle.leased import Leased
from taskengine.lifecycle.parts import Parts
from taskengine.model.keys import webhook_recovery_key
from taskengine.store import webhooks
from taskengine.store.webhooks import Stranded
from taskengine.telemetry.events import emit


class StrandedWebhooks(Leased):
    """Every `[webhooks] every` seconds, at most `[webhooks] limit` events, the oldest first."""

    name = "webhooks"

    def __init__(
        self, parts: Parts, identity: Identity, token: int, dispatcher: Dispatcher
    ) -> None:
        self._settings = parts.config.webhooks
        self._dispatcher = dispatcher
        super().__init__(parts, identity.name, token, self._settings.every, parts.rng)

    async def sweep(self) -> bool:
        """One pass. Never "more at once": after a long outage the events come in portions."""
        ready = await self._ready()
        if not ready:
            return False
        settings = self._settings
        async with self.parts.store.connection() as c:
            taken = await webhooks.stranded(
                c, ready, settings.limit, settings.min_age, settings.max_recoveries
            )
        recovered = await self._dispatch(taken)
        abandoned = await self._abandon(ready)
        self.found(stranded=len(taken), recovered=recovered, abandoned=abandoned)
        return False

    async def _ready(self) -> list[str]:
        """The sources whose job takes a dispatch: looked up before anything else is asked."""
        if not self._settings.sources:
            return []
        blocked = await blocked_sources(self.parts)
        for name, reason in blocked.items():
            job = self._settings.sources[name].job
            emit("webhook.blocked", source=name, task=job, reason=reason)
        return [name for name in self._settings.sources if name not in blocked]

    async def _dispatch(self, taken: Sequence[Stranded]) -> int:
        """How many have an execution now; what failed is found again at its next recovery."""
        minute = self.parts.clock.now()
        answers = await asyncio.gather(
            *(self._dispatch_one(event, webhook_recovery_key(event.id, minute)) for event in taken),
            return_exceptions=True,
        )
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        done = Counter(
            event.source
            for event, answer in zip(taken, answers, strict=True)
            if not isinstance(answer, BaseException)
        )
        for source, count in done.items():
            emit("webhook.recovered", source=source, count=count)
        self._tell_refused(zip(taken, answers, strict=True))
        failures = [each for each in failures if is_away(each) or not _is_refusal(each)]
        if failures:
            raise next((f for f in failures if not is_away(f)), failures[0])
        return done.total()

    def _tell_refused(self, answers: Iterable[tuple[Stranded, object]]) -> None:
        """Its own job refuses it (its exclusive_key raises, say): that ends no service."""
        for event, error in answers:
            if _is_refusal(error):
                job = self._settings.sources[event.source].job
                emit("webhook.undispatched", source=event.source, task=job, error=error)

    async def _dispatch_one(self, event: Stranded, key: str) -> None:
        source = self._settings.sources[event.source]
        await self._dispatcher.dispatch(request_for(source, event, key))

    async def _abandon(self, ready: Sequence[str]) -> int:
        settings = self._settings
        async with self.parts.store.connection() as c:
            worn = await webhooks.abandon(c, ready, settings.limit, settings.max_recoveries)
        for event in worn:
            emit(
                "webhook.abandoned",
                event_id=event.id,
                source=event.source,
                recoveries=event.recoveries,
            )
        return len(worn)


def _is_refusal(answer: object) -> bool:
    return isinstance(answer, TaskEngineError) and not is_away(answer)
