"""How late the event loop is: a nap of known length, and by how much it was overslept.

A body that computes in a coroutine holds up everything else in this process; nothing in the stores
shows that. Guarantee: the worst of the last 30 to 60 s is shown, so that no scrape can miss it.
"""

from __future__ import annotations

from collections.abc import Callable

from taskengine.runtime.clock import Clock
from taskengine.runtime.service import Service

_NAP = 0.25
_WINDOW = 30.0


class LoopLag(Service):
    """Shows the worst lateness by `show(seconds)`."""

    name = "lag"

    def __init__(self, clock: Clock, show: Callable[[float], None]) -> None:
        self._clock = clock
        self._show = show
        self._since = clock.monotonic()
        self._before = self._worst = 0.0

    async def run(self, ready: Callable[[], None]) -> None:
        """Nap after nap."""
        ready()
        while True:
            begun = self._clock.monotonic()
            await self._clock.sleep(_NAP)
            now = self._clock.monotonic()
            self.saw(now, now - begun - _NAP)

    def saw(self, now: float, late: float) -> None:
        """A nap has ended at `now`, so much too late."""
        if now - self._since >= _WINDOW:
            self._before, self._worst, self._since = self._worst, 0.0, now
        self._worst = max(self._worst, late)
        self._show(max(self._before, self._worst))
