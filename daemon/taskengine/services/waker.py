"""The wake subscription: a push into an empty queue, or a resume, wakes this worker at once.

A wake-up that names no queue may tell of a resume: which queues are paused is forgotten, and the next
claim says it anew. One that names a queue tells of a push, and a push says nothing about pauses.
"""

from __future__ import annotations

from collections.abc import Callable

from taskengine.broker.wake import Wake
from taskengine.errors import BrokerUnavailable
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.backoff import Backoff
from taskengine.runtime.service import Service
from taskengine.telemetry.events import emit


class Waker(Service):
    """Subscribed for as long as Redis answers; losing a wake-up costs one poll interval."""

    name = "waker"

    def __init__(
        self, parts: Parts, wake: Callable[[], None], forget: Callable[[], None] = lambda: None
    ) -> None:
        self._parts = parts
        self._wake = wake
        self._forget = forget
        self._subscription = Wake(parts.config.redis, parts.keys.wake)
        self._backoff = Backoff(0.2, 5.0, parts.rng)

    async def run(self, ready: Callable[[], None]) -> None:
        ready()
        while True:
            try:
                await self._subscription.listen(self._heard)
            except BrokerUnavailable as error:
                emit("loop.away", loop=self.name, error=error, seconds=0.0)
                await self._parts.clock.sleep(self._backoff.next())

    def _heard(self, queue: str) -> None:
        self._backoff.reset()
        if not queue:
            self._forget()
        if not queue or queue in self._parts.config.workers.queues:
            self._wake()
