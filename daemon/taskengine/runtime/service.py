"""What the process is made of: a `Service` works until cancelled; a `Periodic` does so in turns.

Guarantees of `Periodic`, written once for every loop: a turn that ended because a store is away is
progress (the loop backs off and goes on); any other error is told, backed off and survived, but
after `max_failures` in a row `ServiceFailed` ends the process; its last turn can always be seen; a
loop that does not come back from a turn is `stalled`.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from taskengine.errors import ServiceFailed, is_away
from taskengine.runtime.backoff import Backoff
from taskengine.runtime.clock import Clock, wait
from taskengine.telemetry.events import emit

_JITTER = 0.1


class Service(ABC):
    """One actor under the supervisor. `name` is its label in logs, metrics and status."""

    name: str

    @abstractmethod
    async def run(self, ready: Callable[[], None]) -> None:
        """Work until cancelled; call `ready()` once, as soon as those that build on it may start.

        Returning ends the process just as raising does: a service has no end of its own.
        """

    async def drain(self) -> None:  # noqa: B027  most have nothing to finish
        """Stop taking on work and finish what is begun; `run` is cancelled when this returns."""

    def hurry(self) -> None:  # noqa: B027  most wait for nothing
        """While draining: stop waiting for what may take long; `drain` should return soon."""

    def report(self, now: float) -> dict[str, Any] | None:  # noqa: ARG002
        """How it stands at `now` (monotonic), for whoever asks; None: it has nothing to tell."""
        return None

    def stalled(self, now: float, limit: float) -> bool:  # noqa: ARG002
        """Whether nothing has moved for `limit` seconds at `now` (monotonic). Default: never."""
        return False


class Periodic(Service):
    """A loop: `tick()` every `interval` seconds, at once when nudged or when there is more.

    `jitter` shortens each wait by up to a tenth, so that daemons do not sweep in step; it also
    scatters the back-off.
    """

    max_failures = 5

    def __init__(self, clock: Clock, interval: float, jitter: random.Random | None = None) -> None:
        self.clock = clock
        self.interval = interval
        self.last_turn: float | None = None
        self.last_length = 0.0
        self.last_findings: Mapping[str, Any] = {}
        self._jitter = jitter
        self._nudged = asyncio.Event()
        self._backoff = Backoff(min(1.0, max(interval, 0.1)), 5.0, jitter)
        self._failures = 0
        self._expected: float | None = None

    @abstractmethod
    async def tick(self) -> bool:
        """One turn; whether there is more to do at once. Also the unit of test."""

    def pause(self) -> float:
        """Seconds from the end of a turn to the next one; override for another rhythm."""
        if self._jitter is None:
            return self.interval
        return self.interval * (1.0 - _JITTER * self._jitter.random())

    def nudge(self) -> None:
        """Have the next turn at once (event loop's thread only). A back-off is not cut short."""
        self._nudged.set()

    def progress(self) -> None:
        """Say within a long turn that it moves, so that it does not count as stalled."""
        self._expected = self.clock.monotonic()

    def found(self, **findings: Any) -> None:
        """What this turn found: shown in status, /healthz and metrics, and in `loop.turn`."""
        self.last_findings = findings

    def report(self, now: float) -> dict[str, Any]:
        """The last turn at `now` (monotonic): its age and length in seconds, what it found."""
        return {
            "age": None if self.last_turn is None else round(now - self.last_turn, 3),
            "seconds": round(self.last_length, 6),
            "found": dict(self.last_findings),
        }

    def stalled(self, now: float, limit: float) -> bool:
        """A turn has run, or a wait has overrun its end, by more than `limit` seconds."""
        return self._expected is not None and now - self._expected > limit

    async def run(self, ready: Callable[[], None]) -> None:
        """Turn after turn, until cancelled or failed too often."""
        ready()
        while True:
            self._nudged.clear()
            delay, nudgeable = await self._turn()
            await self._wait(delay, nudgeable=nudgeable)

    async def _turn(self) -> tuple[float, bool]:
        """One turn under the error rule: (seconds to wait, whether a nudge may cut that short)."""
        begun = self._expected = self.clock.monotonic()
        self.last_findings = {}
        try:
            more = await self.tick()
        except Exception as error:
            self._record(begun)
            return self._recover(error), False
        self._record(begun)
        self._failures = 0
        self._backoff.reset()
        emit("loop.turn", loop=self.name, seconds=self.last_length, findings=self.last_findings)
        return (0.0 if more else self.pause()), True

    def _record(self, begun: float) -> None:
        self.last_turn = self.clock.monotonic()
        self.last_length = self.last_turn - begun

    def _recover(self, error: Exception) -> float:
        """The one error rule; the seconds to back off."""
        if is_away(error):
            emit("loop.away", loop=self.name, error=error, seconds=self.last_length)
            return self._backoff.next()
        self._failures += 1
        emit("loop.failed", loop=self.name, error=error, failures=self._failures)
        if self._failures >= self.max_failures:
            raise ServiceFailed(
                f"service {self.name!r} failed {self._failures} times in a row, last with "
                f"{type(error).__name__}: {error}"
            ) from error
        return self._backoff.next()

    async def _wait(self, seconds: float, *, nudgeable: bool) -> None:
        self._expected = self.clock.monotonic() + max(0.0, seconds)
        if seconds <= 0 or not nudgeable:
            await self.clock.sleep(seconds)
        else:
            await wait(self.clock, self._nudged, seconds)
