"""A sweep that runs on one daemon at a time, under a lease row in Postgres.

A lapse of the lease costs work, never correctness: every sweep skips locked rows and every push is
idempotent.
"""

from __future__ import annotations

import random
from abc import abstractmethod

from taskengine.lifecycle.parts import Parts
from taskengine.runtime.service import Periodic
from taskengine.store import leases


class Lease:
    """One named lease of this process."""

    def __init__(self, parts: Parts, name: str, holder: str, token: int) -> None:
        self._parts = parts
        self._name = name
        self.holder = holder
        self._token = token

    async def hold(self) -> bool:
        """Take it or renew it; whether it is ours for another `[heartbeat] lease` seconds."""
        seconds = self._parts.config.heartbeat.lease
        async with self._parts.store.connection() as c:
            return await leases.take(c, self._name, self.holder, self._token, seconds)


class Leased(Periodic):
    """A `Periodic` whose `sweep()` runs only while the lease is held."""

    def __init__(
        self,
        parts: Parts,
        holder: str,
        token: int,
        interval: float,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(parts.clock, interval, rng)
        self.parts = parts
        self.lease = Lease(parts, self.name, holder, token)

    async def tick(self) -> bool:
        """One turn, if the lease is ours."""
        if not await self.lease.hold():
            self.found(lease="elsewhere")
            return False
        return await self.sweep()

    @abstractmethod
    async def sweep(self) -> bool:
        """One pass; whether there is more."""
