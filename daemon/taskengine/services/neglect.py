"""Work that nobody can run is an alert, not silence: asked for each minute, told at most hourly.

A queue that is not listed, a queue that no living worker polls, a job that no living daemon knows.
"""

from __future__ import annotations

from typing import Any

from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.leased import Leased
from taskengine.lifecycle.parts import Parts
from taskengine.store import reports
from taskengine.telemetry.events import emit

_EVERY = 60.0
_TELL_SECONDS = 3600.0


class Neglect(Leased):
    """Looks for due work without anybody to do it."""

    name = "neglect"

    def __init__(self, parts: Parts, identity: Identity, token: int) -> None:
        super().__init__(parts, identity.name, token, _EVERY, parts.rng)
        self._told: dict[tuple[str, str], float] = {}

    async def sweep(self) -> bool:
        """One look; what is mended is forgotten, and told anew should it come back."""
        lease = self.parts.config.heartbeat.lease
        async with self.parts.store.connection() as c:
            unlisted = await reports.unlisted(c, self.parts.config.engine.queues)
            unpolled = await reports.unpolled(c, lease)
            unknown = await reports.unknown_jobs(c, lease)
        here = [
            *[
                ("queue.unlisted", q.queue, {"queue": q.queue, "count": q.pending})
                for q in unlisted
            ],
            *[("queue.unpolled", n.name, {"queue": n.name, "count": n.waiting}) for n in unpolled],
            *[("job.unknown", n.name, {"task": n.name, "count": n.waiting}) for n in unknown],
        ]
        for event, name, fields in here:
            self._tell(event, name, fields)
        found = {(event, name) for event, name, _ in here}
        self._told = {key: at for key, at in self._told.items() if key in found}
        self.found(neglected=len(here))
        return False

    def _tell(self, event: str, name: str, fields: dict[str, Any]) -> None:
        now = self.parts.clock.monotonic()
        if now - self._told.get((event, name), -_TELL_SECONDS) >= _TELL_SECONDS:
            self._told[event, name] = now
            emit(event, **fields)
