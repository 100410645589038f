"""Retention: what is over goes, hourly, in small batches under a lease. Nothing unfinished is touched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.leased import Leased
from taskengine.lifecycle.parts import Parts
from taskengine.store import retention, workers
from taskengine.store.pool import Connection

_BATCH = 1000
_WORKERS_KEPT = 7 * 86400.0

_SUCCEEDED = ("succeeded",)
_UNWELL = ("failed", "cancelled")


class Retention(Leased):
    """Keeps what `[retention]` says."""

    name = "retention"

    def __init__(self, parts: Parts, identity: Identity, token: int) -> None:
        super().__init__(parts, identity.name, token, parts.config.retention.every, parts.rng)

    async def sweep(self) -> bool:
        """All kinds, until nothing more is old enough or the lease is lost."""
        kept = self.parts.config.retention
        self.found(
            succeeded=await self._ended(_SUCCEEDED, kept.succeeded),
            failed=await self._ended(_UNWELL, kept.failed),
            keys=await self._all(lambda c: retention.delete_emptied(c, kept.keys, _BATCH)),
            events=await self._all(
                lambda c: retention.empty_events(c, kept.webhook_bodies, _BATCH)
            ),
        )
        async with self.parts.store.connection() as c:
            await workers.forget(c, _WORKERS_KEPT)
        return False

    async def _ended(self, states: tuple[str, ...], age: float) -> int:
        """Executions go where the engine drew their key, and are emptied where a caller gave it."""
        deleted = await self._all(lambda c: retention.delete_drawn(c, states, age, _BATCH))
        emptied = await self._all(lambda c: retention.empty_keyed(c, states, age, _BATCH))
        return deleted + emptied

    async def _all(self, batch: Callable[[Connection], Awaitable[int]]) -> int:
        """Batch after batch, each in its own transaction; how many rows."""
        total = 0
        while await self.lease.hold():
            self.progress()
            async with self.parts.store.connection() as c:
                count = await batch(c)
            total += count
            if count < _BATCH:
                break
        return total
