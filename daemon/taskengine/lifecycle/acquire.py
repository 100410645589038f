"""acquire: reserve in Redis, claim in Postgres, acknowledge in Redis.

Guarantees: a claim whose reply was lost is repeated under the same token and gives the same rows;
a token is never sent again once its reply was read; whatever was reserved and not claimed goes
where it belongs (`leftovers`). How rows are claimed is in `claiming`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from taskengine.broker.queue import BadEpoch
from taskengine.errors import Away, BrokerUnavailable, DataRejected, StoreBusy
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.claiming import Claimed, Lanes, Left, Why, claim_all
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.events import WebhookEvent, load_events
from taskengine.lifecycle.leftovers import Leftovers
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.reporting import count_moved, tell_claimed
from taskengine.lifecycle.waking import wake
from taskengine.model.execution import Claim, Reservation
from taskengine.runtime.backoff import Backoff
from taskengine.store import executions
from taskengine.store.execution_rows import Moved
from taskengine.telemetry.events import emit

T = TypeVar("T")

_IN_VAIN = 5  # claims in a row that came to nothing, though nothing stood in their way: then a rest


class Acquirer:
    """The acquiring side of one worker."""

    def __init__(
        self, parts: Parts, identity: Identity, lanes: Callable[[], Lanes] = lambda: Lanes(1, 1)
    ) -> None:
        self._parts = parts
        self._lanes = lanes
        self._identity = identity
        self._backoff = Backoff(0.05, 2.0, parts.rng)
        self._leftovers = Leftovers(parts, identity)
        self.jobs: tuple[str, ...] = tuple(parts.registry.names)
        self.paused: set[str] = set()
        self.claiming: set[int] = set()  # tokens whose claims are not handed over yet
        self._left: dict[int, Left] = {}  # what the last claim left, until it is put away
        self._in_vain = 0
        self.last_try = parts.clock.monotonic()  # repeating is progress, too

    @property
    def rests(self) -> bool:
        """Whether claims came to nothing a moment ago, again and again: we may have been declared
        dead, and the next beat tells us."""
        rested = self._parts.clock.monotonic() - self.last_try
        return self._in_vain >= _IN_VAIN and rested < self._parts.config.workers.poll_interval

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
        known = self.jobs if jobs is None else jobs
        ids = sorted(r.id for r in reservations)

        async def attempt(token: int, lanes: Lanes) -> Claimed:
            async with self._parts.store.connection() as c:
                return await claim_all(c, ids, worker_id, token, known, lanes, self.jobs)

        return await self.claimed(attempt)

    async def claimed(self, attempt: Callable[[int, Lanes], Awaitable[Claimed]]) -> list[Claim]:
        """What `attempt` claims under a new token, in the lanes that are free now; it is repeated
        until Postgres answers, and what it leaves is kept until `put_away` or `take_left`."""
        token, lanes = self._parts.draw_token(), self._lanes()
        self.claiming.add(token)
        try:
            claims, left = await self._repeat(lambda: attempt(token, lanes))
            self._left = {each.row.id: each for each in left}
            await self._fail([each for each in left if each.why is Why.BAD])
        finally:
            self.claiming.discard(token)
        self._in_vain = 0 if claims else self._in_vain
        tell_claimed(claims)
        return claims

    def take_unasked(self, names: Collection[str]) -> set[int]:
        """Of what the last claim left, those that only were not asked for, of these jobs; they are
        the caller's from here on."""
        left = self._left.values()
        ids = {e.row.id for e in left if e.why is Why.UNKNOWN and e.row.job in names}
        self._left = {each: left for each, left in self._left.items() if each not in ids}
        return ids

    def take_left(self) -> list[Left]:
        """What the last claim left; it is the caller's from here on."""
        left, self._left = self._left, {}
        return list(left.values())

    def forget_pauses(self) -> None:
        """A queue may have been resumed: the next claim says which are still paused."""
        self.paused = set()

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

    async def _fail(self, bad: Sequence[Left]) -> None:
        """What Postgres cannot claim becomes failed, as any failure does, so that it holds nobody up;
        where even that is refused, it is tried again later."""
        moved: list[Moved] = []
        for row, _, error in bad:
            try:
                moved += await self._fail_one(row.id, f"cannot be claimed: {error}")
                self._left.pop(row.id)
            except (DataRejected, Away):
                self._left[row.id] = Left(row, Why.LOCKED)
            emit("execution.unclaimable", execution_id=row.id, task=row.job, error=error)
        count_moved(moved)
        notices = [notice for each in moved if (notice := each.delivery) is not None]
        if notices:
            await deliver(self._parts, notices)
        await wake(self._parts, [r.exclusive_key for r, _, _ in bad if r.exclusive_key])

    async def _fail_one(self, execution_id: int, reason: str) -> list[Moved]:
        parts = self._parts
        check_after, by = parts.config.recovery.check_after, self._identity.name
        async with parts.store.connection() as c:
            return await executions.unclaimable(
                c, execution_id, reason, by, parts.notice_queue, check_after
            )

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
    ) -> None:
        """Send what was reserved and not claimed where it belongs."""
        left, self._left = self._left, {}
        claimed = {claim.id for claim in claims}
        rest = {r.id: r for r in reservations if r.id not in claimed}
        if not rest:
            return
        known = self.jobs if jobs is None else jobs
        try:
            sent = await self._leftovers.send(rest, left, known, self.jobs)
        except (BrokerUnavailable, StoreBusy, Away):
            emit("execution.left_reserved", count=len(rest))
            return
        self.paused |= sent.paused
        if left and not claims and sent.free == len(rest):
            self._in_vain += 1
