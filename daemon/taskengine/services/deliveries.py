"""The delivery sweep: pending rows that nobody claimed are delivered again.

What it refuses to touch is what makes it a reconciler: fresh rows, claimed rows, marked waiters
(but for the next one of a key that nobody holds).
`check_at` is moved on before anything is pushed, and a push is idempotent: no sweep multiplies
work. After a long outage it is capped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.leased import Leased
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Delivery
from taskengine.store import executions
from taskengine.telemetry.events import emit

_BATCH = 1000


class Deliveries(Leased):
    """One sweep looks at no more than `[recovery] sweep_limit` rows."""

    name = "deliveries"

    def __init__(self, parts: Parts, identity: Identity, token: int) -> None:
        super().__init__(
            parts, identity.name, token, parts.config.recovery.delivery_sweep, parts.rng
        )
        self._after = ""  # the exclusive key up to which the last sweep came

    async def sweep(self) -> bool:
        """Look at due rows, a thousand at a time, under the lease."""
        await self.parts.client.probe()  # while Redis is away nothing is looked at, nor put off
        looked = pushed = 0
        while looked < self.parts.config.recovery.sweep_limit:
            if looked and not await self.lease.hold():
                break
            rows = await self._due()
            looked += len(rows)
            pushed += await self._deliver(rows)
            if len(rows) < _BATCH:
                break
        woken = await self._wake() if await self.lease.hold() else 0
        self.found(looked=looked, pushed=pushed, woken=woken)
        if pushed:
            emit("delivery.repaired", count=pushed)
        return False

    async def _wake(self) -> int:
        """Push the next of each exclusive key that has waiters and no holder: its own push, at the
        end of the last holder, may have been lost. A sweep goes on where the last one stopped."""
        woken = 0
        for _ in range(max(1, self.parts.config.recovery.sweep_limit // _BATCH)):
            async with self.parts.store.connection() as c:
                rows = await executions.next_of_free_keys(
                    c, self.parts.queues.names, _BATCH, after=self._after
                )
            woken += await self.parts.queues.push([row.delivery for row in rows])
            self._after = rows[-1].key if len(rows) >= _BATCH else ""
            if not self._after:
                break
        if woken:
            emit("execution.woken_late", count=woken)
        return woken

    async def _due(self) -> list[Delivery]:
        recovery = self.parts.config.recovery
        async with self.parts.store.connection() as c:
            return await executions.undelivered(
                c, self.parts.queues.names, _BATCH, recovery.check_after
            )

    async def _deliver(self, rows: Sequence[Delivery]) -> int:
        """Push what has no message; what has one is looked at again in 15 minutes."""
        by_queue: dict[str, list[Delivery]] = defaultdict(list)
        for row in rows:
            by_queue[row.queue].append(row)
        there: list[int] = []
        pushed = 0
        for queue, batch in by_queue.items():
            present = await self.parts.queues.present(queue, [row.id for row in batch])
            there += [row.id for row, is_there in zip(batch, present, strict=True) if is_there]
            missing = [row for row, is_there in zip(batch, present, strict=True) if not is_there]
            pushed += await self.parts.queues.push(missing)
        if there:
            async with self.parts.store.connection() as c:
                await executions.delivered(c, sorted(there))
        return pushed
