"""How long a loop waits before it tries again: longer each time, never longer than the cap.

Guarantees: the n-th delay lies in (half, whole] of `base * 2**n`, capped; no overflow at any n.
"""

from __future__ import annotations

import random

_DOUBLINGS = 30


class Backoff:
    """Doubling delays in seconds. With a `rng` each is shortened by up to half, so that a fleet
    which lost its store together does not come back in step."""

    def __init__(self, base: float, cap: float, rng: random.Random | None = None) -> None:
        self._base = base
        self._cap = cap
        self._rng = rng
        self.tries = 0

    def next(self) -> float:
        """The delay to wait now; the next one is longer."""
        delay: float = min(self._cap, self._base * 2 ** min(self.tries, _DOUBLINGS))
        self.tries += 1
        return delay if self._rng is None else delay * (1.0 - 0.5 * self._rng.random())

    def reset(self) -> None:
        """It worked: begin again at the base."""
        self.tries = 0
