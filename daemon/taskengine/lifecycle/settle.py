"""settle: how a run ended, written under its claim's token, in batches.

Guarantees: what ends while a statement is in flight goes together in the next one; a statement is
repeated until Postgres answers, and only "no row" ends it otherwise; one bad row never holds up its
neighbours; a result that cannot be stored is settled without it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ParamSpec

from taskengine.errors import Away, DataRejected, StoreBusy
from taskengine.lifecycle.batches import halved
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.event_endings import event_about, fail_events, mark_events, tell_processed
from taskengine.lifecycle.inflight import Flight, Inflight
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.reporting import tell_lost, tell_moved, tell_succeeded
from taskengine.lifecycle.scribe import Scribe
from taskengine.lifecycle.waking import next_of
from taskengine.model.outcome import LONGEST_DELAY, Outcome
from taskengine.model.settlement import Settlement, Success, decide
from taskengine.model.text import storable
from taskengine.runtime.backoff import Backoff
from taskengine.store import executions, locks
from taskengine.store.execution_rows import Moved
from taskengine.telemetry.events import emit

P = ParamSpec("P")

_BATCH = 1000
_LOCKED_SECONDS = 0.5  # until one behind a lock is tried again
_REFUSED_SECONDS = 10.0  # until one that Postgres refuses is


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """A flight with what is to be written of it. `duration` seconds."""

    flight: Flight
    settlement: Success | Settlement
    outcome: Outcome
    duration: float


class Settler:
    """The one writer of this worker's settlements."""

    def __init__(self, parts: Parts, inflight: Inflight, scribe: Scribe, by: str) -> None:
        self._parts = parts
        self._inflight = inflight
        self._scribe = scribe
        self._by = by
        self.settled = 0  # since the start
        self._queue: deque[Ended] = deque()
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._locked = 0  # those that wait for somebody's lock
        self._postponed: set[Ended] = set()  # of the batch that is being written
        self._backoff = Backoff(0.05, 2.0, parts.rng)

    def __len__(self) -> int:
        """How many settlements wait."""
        return len(self._queue)

    def put(self, flight: Flight, outcome: Outcome) -> None:
        """Decide and have it written."""
        percent, message = flight.ctx.last_progress()
        if percent is not None:
            outcome = outcome._replace(progress=percent, progress_message=message)
        duration = self._parts.clock.monotonic() - flight.started_at
        settlement = decide(flight.claim, outcome, self._parts.rng)
        self._queue.append(Ended(flight, settlement, outcome, duration))
        self._idle.clear()
        self._more.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._queue:
                count = min(_BATCH, len(self._queue))
                await self._write([self._queue.popleft() for _ in range(count)])
            if not self._locked:
                self._idle.set()

    async def flush(self) -> None:
        """Wait until everything put so far is written."""
        await self._idle.wait()

    async def _write(self, batch: Sequence[Ended]) -> None:
        """One batch: the logs first, then the moves, then the messages of what is pending again."""
        await self._scribe.flush([ended.flight for ended in batch])
        successes = [e for e in batch if isinstance(e.settlement, Success)]
        others = [e for e in batch if isinstance(e.settlement, Settlement)]
        if successes:
            together, alone = self._surely(self._succeed), self._surely(self._succeed_alone)
            await halved(successes, together, alone, self._unlocked)
        moved: list[Moved] = []
        if others:
            together, alone = self._surely(self._settle), self._surely(self._settle_alone)
            moved = await halved(others, together, alone, self._unlocked)
        postponed, self._postponed = self._postponed, set()
        written = [ended for ended in batch if ended not in postponed]
        for ended in written:
            self._inflight.settled(ended.flight)
            self.settled += 1
        deliveries = [d for m in moved if (d := m.delivery) is not None]
        if keys := _keys(written):
            deliveries += await next_of(self._parts, keys)
        if deliveries:
            await deliver(self._parts, deliveries)

    def _surely(
        self, statement: Callable[P, Awaitable[list[Moved]]]
    ) -> Callable[P, Awaitable[list[Moved]]]:
        """Repeated until Postgres answers: the token makes a repeat harmless. It is not the batch
        that is repeated, because halves that were settled before are known to be."""

        async def repeated(*args: P.args, **kwargs: P.kwargs) -> list[Moved]:
            while True:
                try:
                    answer = await statement(*args, **kwargs)
                except StoreBusy:
                    raise
                except Away:
                    await self._parts.clock.sleep(self._backoff.next())
                else:
                    self._backoff.reset()
                    return answer

        return repeated

    async def _succeed(self, batch: Sequence[Ended]) -> list[Moved]:
        rows = sorted(e.settlement for e in batch if isinstance(e.settlement, Success))
        if any(event_about(e) is not None for e in batch):
            async with self._parts.store.transaction() as c:
                moved = await executions.succeed(c, rows)
                processed = await mark_events(c, batch, moved)
            tell_processed(processed)
        else:
            async with self._parts.store.connection() as c:
                moved = await executions.succeed(c, rows)
        tell_succeeded([e for e in batch if e.flight.claim.id in moved])
        tell_lost([e for e in batch if e.flight.claim.id not in moved])
        return []

    async def _unlocked(self, batch: Sequence[Ended]) -> Sequence[Ended]:
        """Those whose rows nobody has locked; all of them where Postgres does not say."""
        try:
            async with self._parts.store.connection() as c:
                free = await locks.unlocked(c, [e.flight.claim.id for e in batch])
        except Away:
            return batch
        return [e for e in batch if e.flight.claim.id in free]

    def _postpone(self, ended: Ended, error: Exception) -> list[Moved]:
        """Locked, or refused however plain: it is tried again later, and holds nobody up."""
        locked = isinstance(error, StoreBusy)
        if not locked:
            emit("execution.unsettled", execution_id=ended.flight.claim.id, error=error)
        self._postponed.add(ended)
        self._locked += locked
        seconds = _LOCKED_SECONDS if locked else _REFUSED_SECONDS
        asyncio.get_running_loop().call_later(seconds, self._again, ended, locked)
        return []

    def _again(self, ended: Ended, locked: bool) -> None:
        self._locked -= locked
        self._queue.append(ended)
        self._more.set()

    async def _succeed_alone(self, ended: Ended, error: Exception) -> list[Moved]:
        """A result that Postgres refuses is left out, and said so."""
        if isinstance(error, StoreBusy) or not isinstance(ended.settlement, Success):
            return self._postpone(ended, error)
        plain = ended.settlement._replace(
            result=None, result_error=f"not storable: {storable(str(error))}", progress_message=None
        )
        try:
            return await self._succeed([replace(ended, settlement=plain)])
        except (DataRejected, StoreBusy) as again:
            return self._postpone(ended, again)

    async def _settle(self, batch: Sequence[Ended]) -> list[Moved]:
        rows = sorted(
            (e.settlement for e in batch if isinstance(e.settlement, Settlement)),
            key=lambda s: s.id,
        )
        async with self._parts.store.transaction() as c:
            moved = await executions.settle(
                c, rows, self._by, self._parts.notice_queue, self._parts.config.recovery.check_after
            )
            await fail_events(c, batch, moved)
            verified = {m.id for m in moved if m.move == "verified"}
            processed = await mark_events(c, batch, verified)
        tell_processed(processed)
        ids_moved = {m.id for m in moved}
        tell_moved(batch, moved)
        tell_lost([e for e in batch if e.flight.claim.id not in ids_moved])
        return moved

    async def _settle_alone(self, ended: Ended, error: Exception) -> list[Moved]:
        """Whatever of it Postgres may refuse is left out."""
        if not isinstance(error, DataRejected) or not isinstance(ended.settlement, Settlement):
            return self._postpone(ended, error)
        plain = ended.settlement._replace(
            delay=min(ended.settlement.delay, LONGEST_DELAY),
            reason=storable(ended.settlement.reason),
            error=f"not storable: {storable(str(error))}",
            traceback=None,
            progress_message=None,
        )
        try:
            return await self._settle([replace(ended, settlement=plain)])
        except (DataRejected, StoreBusy) as again:
            return self._postpone(ended, again)


def _keys(batch: Iterable[Ended]) -> set[str]:
    """The exclusive keys that these have left, or somebody else has for them."""
    return {key for e in batch if (key := e.flight.claim.exclusive_key) is not None}
