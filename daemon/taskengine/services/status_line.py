"""The status line that systemd shows: what the daemon is doing, in words an operator can use."""

from __future__ import annotations

from collections import deque

from taskengine.insight.words import span
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.service import Periodic
from taskengine.runtime.systemd import Notifier

_INTERVAL, _MINUTE = 5.0, 60.0


class StatusLine(Periodic):
    """Says what this daemon alone knows, without asking a store."""

    name = "status_line"

    def __init__(self, parts: Parts, crew: Crew, notifier: Notifier) -> None:
        super().__init__(parts.clock, _INTERVAL)
        self._parts = parts
        self._crew = crew
        self._notifier = notifier
        self._settled = deque[tuple[float, int]]()  # by and by: when, and how many until then

    async def tick(self) -> bool:
        now, total = self.clock.monotonic(), self._crew.settler.settled
        self._settled.append((now, total))
        while now - self._settled[0][0] > _MINUTE:
            self._settled.popleft()
        self._notifier.status(self.words())
        return False

    def words(self) -> str:
        """`12 of 200 slots busy, the longest for 3 min 5 s; 1,204 settled in the last minute`."""
        crew = self._crew
        left = len(crew.inflight)
        if crew.identity.draining:
            told = ["drained: nothing runs" if crew.idle else f"draining: {left} left"]
        else:
            told = [f"{crew.inflight.busy} of {crew.slots} slots busy"]
        return ", ".join([*told, *self._longest()]) + self._of_last_minute() + self._missing()

    def _longest(self) -> list[str]:
        begun = [flight.started_at for flight in self._crew.inflight]
        return [f"the longest for {span(self.clock.monotonic() - min(begun))}"] if begun else []

    def _of_last_minute(self) -> str:
        begun = self._settled[0][1] if self._settled else 0
        count = self._crew.settler.settled - begun
        return f"; {count:,} settled in the last minute" if count else ""

    def stores(self) -> dict[str, str]:
        """Whether each is `up` or `away`, as far as is known; Redis may be `off`."""
        redis = "up" if self._parts.client.away_since is None else "away"
        return {
            "postgres": "away" if self._silent > self._parts.config.heartbeat.lease else "up",
            "redis": redis if self._parts.config.redis.enabled else "off",
        }

    @property
    def _silent(self) -> float:
        """Seconds since the last beat that Postgres has answered."""
        beaten = self._crew.identity.last_beat
        return 0.0 if beaten is None else self.clock.monotonic() - beaten

    def _missing(self) -> str:
        """Stores that do not answer."""
        stores = self.stores()
        silent = f"; no word from Postgres for {span(self._silent)}"
        postgres = silent if stores["postgres"] == "away" else ""
        redis = "; Redis is away" if stores["redis"] == "away" else ""
        return f"{postgres}{redis}{'; direct mode' if self._crew.direct.on else ''}"
