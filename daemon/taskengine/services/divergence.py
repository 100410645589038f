"""Divergence: does Redis remember what Postgres knows? At once on a bad epoch, else every 60 s.

Every daemon learns a new generation, and mends a key of a wrong type; one of them, under the lease,
rebuilds. The comparison reads Redis first and counts Postgres then, and looks twice before it
believes in a lack.
"""

from __future__ import annotations

from collections.abc import Mapping

from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.leased import Lease
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.rebuild import is_good, mend_keys, rebuild, recall, rewrite
from taskengine.runtime.service import Periodic
from taskengine.store import executions
from taskengine.telemetry.events import emit

_WAIT = 0.5  # seconds between two looks at a rebuild that another daemon does


class Divergence(Periodic):
    """Watches the epoch on every daemon; compares and rebuilds on one."""

    name = "divergence"

    def __init__(self, parts: Parts, identity: Identity, token: int) -> None:
        super().__init__(parts.clock, parts.config.recovery.divergence)
        self._parts = parts
        self._lease = Lease(parts, self.name, identity.name, token)
        self._waiting = False
        parts.memory.on_suspicion.append(self.nudge)

    async def tick(self) -> bool:
        """Recall; rebuild what is not remembered; compare what is."""
        self._waiting = False
        good = is_good(self._parts, await recall(self._parts))
        await mend_keys(self._parts)
        if not await self._lease.hold():
            self._waiting = not good
            self.found(lease="elsewhere", remembered=good)
            return False
        if not good:
            rebuilt = await rebuild(self._parts)
            self.found(rebuilt=rebuilt.total)
            return False
        lacking = await self._lacking()
        for queue in lacking:
            emit("delivery.diverged", queue=queue, count=lacking[queue])
            await rewrite(self._parts, queue)
        self.found(lacking=sum(lacking.values()))
        return False

    def pause(self) -> float:
        return _WAIT if self._waiting else self.interval

    async def _lacking(self) -> Mapping[str, int]:
        """How many messages each queue lacks; seen so twice."""
        first = await self._compare()
        if not first:
            return {}
        await self._parts.clock.sleep(_WAIT)
        second = await self._compare()
        return {queue: count for queue, count in second.items() if queue in first}

    async def _compare(self) -> Mapping[str, int]:
        depths = await self._parts.queues.depths()
        async with self._parts.store.connection() as c:
            pending = await executions.pending_count(c, self._parts.queues.names)
        lack = {q: n - sum(depths[q]) for q, n in pending.items()}
        return {queue: count for queue, count in lack.items() if count > 0}
