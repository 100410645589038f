"""acquire: reserve in Redis, claim in Postgres, acknowledge in Redis.

Guarantees: a claim whose reply was lost is repeated under the same token and gives the same rows;
a token is never sent again once its reply was read; whatever was reserved and not claimed goes
where it belongs (dropped, delayed, pushed back).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from taskengine.broker.queue import BadEpoch
from taskengine.errors import Away, BrokerUnavailable, DataRejected, StoreBusy
from taskengine.lifecycle.batches import halved
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.events import WebhookEvent, load_events
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Claim, Delivery, Reservation
from taskengine.runtime.backoff import Backoff
from taskengine.store import executions
from taskengine.store.execution_rows import Leftover
from taskengine.telemetry.events import emit

T = TypeVar("T")

_LATER = 5_000_000  # µs: for what cannot be claimed here, or not now
_NO_THREAD = 1_000_000  # µs


class Acquirer:
    """The acquiring side of one worker."""

    def __init__(self, parts: Parts, identity: Identity) -> None:
        self._parts = parts
        self._identity = identity
        self._backoff = Backoff(0.05, 2.0, parts.rng)
        self.jobs: tuple[str, ...] = tuple(parts.registry.names)
        self.paused: set[str] = set()
        self.claiming: set[int] = set()  # tokens whose claims are not handed over yet
        self._not_now: set[int] = set()  # ids behind somebody's lock
        self.last_try = parts.clock.monotonic()  # repeating is progress, too

    async def reserve(self, limits: Sequence[tuple[str, int]], n: int) -> list[Reservation]:
        """Up to `n` ids, each queue at most its limit, paused ones left out.

        A Redis that does not remember is suspected, and gives nothing.
        """
        open_ = [(queue, limit) for queue, limit in limits if queue not in self.paused]
        if not open_:
            return []
        try:
            return await self._parts.queues.reserve(open_, n, self._parts.memory.generation)
        except BadEpoch:
            self._parts.memory.suspect()
            return []

    async def claim(
        self, reservations: Sequence[Reservation], worker_id: int, jobs: Sequence[str] | None = None
    ) -> list[Claim]:
        """Claim them under one new token, repeating until Postgres answers."""
        token = self._parts.draw_token()
        known = self.jobs if jobs is None else jobs

        async def run(ids: Sequence[int]) -> list[Claim]:
            async with self._parts.store.connection() as c:
                return await executions.claim(c, ids, worker_id, token, known)

        ids = sorted(r.id for r in reservations)
        self.claiming.add(token)
        try:
            claims = await self._repeat(lambda: halved(ids, run, self._unclaimable))
        finally:
            self.claiming.discard(token)
        _tell(claims)
        return claims

    async def events(self, claims: Sequence[Claim]) -> dict[int, WebhookEvent]:
        """The webhook events that these claims are about, by execution id."""
        tokens = {claim.token for claim in claims}
        self.claiming |= tokens  # until they fly, a beat must not take them for strays
        try:
            return await self._repeat(lambda: load_events(self._parts, claims))
        finally:
            self.claiming -= tokens

    async def _repeat(self, work: Callable[[], Awaitable[T]]) -> T:
        """Until Postgres answers."""
        while True:
            self.last_try = self._parts.clock.monotonic()
            try:
                answer = await work()
            except Away:
                await self._parts.clock.sleep(self._backoff.next())
            else:
                self._backoff.reset()
                return answer

    async def _unclaimable(self, execution_id: int, error: Exception) -> list[Claim]:
        """One that is locked is tried again later; one that Postgres cannot claim becomes failed:
        neither holds anybody up."""
        if not isinstance(error, DataRejected):
            self._not_now.add(execution_id)
            return []
        try:
            async with self._parts.store.connection() as c:
                await executions.unclaimable(
                    c, execution_id, f"cannot be claimed: {error}", self._identity.name
                )
        except (DataRejected, StoreBusy):
            self._not_now.add(execution_id)
        emit("execution.unclaimable", execution_id=execution_id, error=error)
        return []

    async def ack(self, claims: Sequence[Claim]) -> None:
        """Forget the messages of what was claimed; if Redis is away, the grace does it."""
        try:
            await self._parts.queues.ack(Reservation(c.id, c.queue) for c in claims)
        except BrokerUnavailable:
            emit("execution.unacknowledged", count=len(claims))

    async def put_away(
        self,
        reservations: Sequence[Reservation],
        claims: Sequence[Claim],
        jobs: Sequence[str] | None = None,
        *,
        no_thread: bool = False,
    ) -> None:
        """Send what was reserved and not claimed where it belongs.

        `no_thread`: `jobs` leaves some out only because no thread is free for them now.
        """
        not_now, self._not_now = self._not_now, set()
        claimed = {claim.id for claim in claims}
        rest = {r.id: r for r in reservations if r.id not in claimed}
        if not rest:
            return
        known = self.jobs if jobs is None else jobs
        try:
            async with self._parts.store.connection() as c:
                found = await executions.leftover(c, list(rest), known)
            wait = _NO_THREAD if no_thread else _LATER
            await self._sort([(rest[row.id], row) for row in found], not_now, wait)
        except (BrokerUnavailable, StoreBusy, Away):
            emit("execution.left_reserved", count=len(rest))

    async def _sort(
        self, rows: Sequence[tuple[Reservation, Leftover]], not_now: Collection[int], wait: int
    ) -> None:
        gone = [r for r, row in rows if row.settled]
        early = [_at(r, row, row.score or 0) for r, row in rows if not row.settled and row.early]
        rest = [(r, row) for r, row in rows if not row.settled and not row.early]
        soon = self._now() + wait
        later = [_at(r, row, soon) for r, row in rest if not row.known or r.id in not_now]
        back = [_at(r, row, row.score or 0) for r, row in rest if row.known and r.id not in not_now]
        self.paused |= {row.queue for _, row in rest if row.paused and row.queue}
        if gone:
            await self._parts.queues.ack(gone)
        if early or later:
            await self._parts.queues.delay([*early, *later])
        if back:
            await self._parts.queues.put_back(back)

    def _now(self) -> int:
        """The database's clock in µs: the promoter goes by it, whatever ours says."""
        return self._identity.score(self._parts.clock.monotonic())


def _at(reservation: Reservation, row: Leftover, score: int) -> Delivery:
    return Delivery(reservation.id, row.queue or reservation.queue, score, True)


def _tell(claims: Sequence[Claim]) -> None:
    if claims:
        emit("executions.claimed", rows=[(c.queue, c.job, c.waited) for c in claims])
