"""Telling at most so often what a stranger can cause as often as he likes."""

from __future__ import annotations

from taskengine.runtime.clock import Clock


class Throttle:
    """Counts what happens under a name; says a number when it is time to tell, else 0."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._since: dict[tuple[str, ...], tuple[float, int]] = {}

    def __call__(self, *name: str) -> int:
        """How many there were since this was told last, this one included; 0: keep quiet."""
        now = self._clock.monotonic()
        told_at, silent = self._since.get(name, (-self._seconds, 0))
        if now - told_at < self._seconds:
            self._since[name] = (told_at, silent + 1)
            return 0
        self._since[name] = (now, 0)
        return silent + 1
