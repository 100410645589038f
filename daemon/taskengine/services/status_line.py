"""The status line that systemd shows: what the daemon is doing, in words an operator can use."""

from __future__ import annotations

from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.service import Periodic
from taskengine.runtime.systemd import Notifier


class StatusLine(Periodic):
    """Says how much runs; while draining, how much is left."""

    name = "status_line"

    def __init__(self, parts: Parts, crew: Crew, notifier: Notifier) -> None:
        super().__init__(parts.clock, 5.0)
        self._client = parts.client
        self._crew = crew
        self._notifier = notifier

    async def tick(self) -> bool:
        self._notifier.status(self.words())
        return False

    def words(self) -> str:
        """`12 of 200 slots busy`; `draining: 3 left`; `drained: nothing runs`."""
        left, busy = len(self._crew.inflight), self._crew.inflight.busy
        if self._crew.identity.draining:
            return f"draining: {left} left" if left else "drained: nothing runs"
        away = "" if self._client.away_since is None else ", Redis is away"
        direct = ", direct mode" if self._crew.direct.on else ""
        return f"{busy} of {self._crew.slots} slots busy{away}{direct}"
