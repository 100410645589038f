"""Direct mode: claiming straight from Postgres while Redis is away, or for good where it is off.

A second way to reserve, and nothing else: due rows are chosen and locked, then claimed by their ids
in the same transaction. Guarantees: two that choose at once share without overlap (locked rows are
passed over); a claim whose reply was lost is repeated by the ids chosen, under the same token; no
row waits longer than `_ANEW` behind others because it was once passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from taskengine.errors import Away, StoreBusy
from taskengine.lifecycle.acquire import Acquirer
from taskengine.lifecycle.claiming import Claimed, Lanes, Why, claim_all
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Claim
from taskengine.store import executions
from taskengine.store.due import DueQueue, DueRow, lock_due
from taskengine.store.pool import Connection
from taskengine.telemetry.events import emit

MOST = 500  # rows a transaction
_ANEW = 10.0  # seconds after which a long backlog is looked through from its start again


class _Chosen(NamedTuple):
    """What a turn is to claim: ids, the due rows among them in their order, the queues looked into,
    and those of them that may have more."""

    ids: list[int]
    rows: list[DueRow]
    queues: list[str]
    full: set[str]


class DirectMode:
    """When, and how."""

    def __init__(self, parts: Parts, acquirer: Acquirer) -> None:
        self._parts = parts
        self._acquirer = acquirer
        self._told = False
        self._seen: dict[str, tuple[DueRow, float]] = {}  # the last one, and since when we go on
        self._jobs: Sequence[str] = ()
        self.more = False  # the last turn left some that only a slot, a lane or a key kept away

    @property
    def on(self) -> bool:
        """Whether claims go straight to Postgres now."""
        if not self._parts.config.redis.enabled:
            return True
        away, patience = self._parts.client.away_since, self._parts.config.workers.direct_after
        return away is not None and self._parts.clock.monotonic() - away >= patience

    def look(self) -> bool:
        """The same, and a change is told."""
        now = self.on
        if now != self._told:
            self._told = now
            self._seen.clear()
            switched_off = not self._parts.config.redis.enabled
            emit("broker.off" if switched_off else f"broker.direct{'' if now else '_left'}")
        return now

    async def claim(
        self, limits: Sequence[tuple[str, int]], n: int, worker_id: int, jobs: Sequence[str]
    ) -> tuple[list[Claim], bool]:
        """Up to `n` claims, each queue at most its limit, the first queue's first; and whether the
        next turn may follow at once."""
        n = min(n, MOST)
        wanted = self._wanted(limits, n, jobs)
        chosen: _Chosen | None = None

        async def attempt(token: int, lanes: Lanes) -> Claimed:
            nonlocal chosen
            async with self._parts.store.transaction() as c:
                if chosen is None:
                    chosen = await self._choose(c, wanted, n, jobs, lanes)
                if not chosen.ids:
                    return Claimed([], [])
                known = self._acquirer.jobs
                return await claim_all(c, chosen.ids, worker_id, token, jobs, lanes, known)

        claims = await self._acquirer.claimed(attempt)
        held_up = await self._put_away()
        assert chosen is not None  # noqa: S101  Postgres has answered
        self._go_on(chosen)
        self.more = held_up or bool(chosen.full)
        return claims, len(chosen.rows) == n

    def _wanted(
        self, limits: Sequence[tuple[str, int]], n: int, jobs: Sequence[str]
    ) -> list[DueQueue]:
        """The queues, each from where the last turn left it; from the start where other jobs are
        asked for, because those were passed over."""
        if jobs != self._jobs:
            self._seen.clear()
            self._jobs = jobs
        now = self._parts.clock.monotonic()
        self._seen = {name: seen for name, seen in self._seen.items() if now - seen[1] < _ANEW}
        wanted = []
        open_ = [each for each in limits if each[0] not in self._acquirer.paused]
        for name, limit in open_:
            row, _ = self._seen.get(name, (None, 0.0))
            at = (None, None) if row is None else (row.run_at, row.id)
            wanted.append(DueQueue(name, min(limit, n), *at))
        return wanted

    async def _choose(
        self, c: Connection, wanted: Sequence[DueQueue], n: int, jobs: Sequence[str], lanes: Lanes
    ) -> _Chosen:
        """The first `n` of the due rows and of the waiters whose key is free, each queue at most its
        limit. What is locked and not taken is free again when the transaction ends."""
        orphaned = (lanes.once > 0, lanes.again > 0)
        rows = await lock_due(c, wanted, n, jobs, orphaned=orphaned)
        names = [queue.name for queue in wanted]
        woken = await executions.next_of_free_keys(c, names, n, jobs)
        counts = Counter(row.queue for row in rows)
        full = {q.name for q in wanted if len(rows) == n or counts[q.name] == q.most}
        found = {(row.queue, row.score, row.id) for row in rows}
        ids = _first(n, wanted, found | {(each.queue, each.score, each.id) for each in woken})
        taken = frozenset(ids)
        return _Chosen(sorted(ids), [row for row in rows if row.id in taken], names, full)

    async def _put_away(self) -> bool:
        """Mark the refused waiters of a key, or they would be chosen again and again; whether any
        row waits for a lane or a key."""
        left = self._acquirer.take_left()
        self._acquirer.paused |= {e.row.queue for e in left if e.why is Why.PAUSED and e.row.queue}
        whys = {each.row.id: each.why for each in left}
        waiters = sorted(each for each, why in whys.items() if why is Why.KEY_TAKEN)
        if waiters:
            try:
                async with self._parts.store.connection() as c:
                    await executions.mark_waiting(c, waiters, self._acquirer.jobs)
            except (Away, StoreBusy):  # marked by the next turn
                return True
        return bool(waiters) or Why.LANE_FULL in whys.values()

    def _go_on(self, chosen: _Chosen) -> None:
        """From what was chosen, in a queue that may have more; else from its start again."""
        now = self._parts.clock.monotonic()
        last = {row.queue: row for row in chosen.rows}
        for name in chosen.queues:
            if name not in chosen.full:
                self._seen.pop(name, None)
            elif name in last:
                _, since = self._seen.get(name, (None, now))
                self._seen[name] = (last[name], since)


def _first(n: int, wanted: Sequence[DueQueue], found: Iterable[tuple[str, int, int]]) -> list[int]:
    """Of (queue, score, id) the first `n` ids, each queue at most its limit."""
    rank = {queue.name: place for place, queue in enumerate(wanted)}
    room = {queue.name: queue.most for queue in wanted}
    ids: list[int] = []
    for queue, _, execution_id in sorted(found, key=lambda each: (rank[each[0]], *each[1:])):
        if len(ids) < n and room[queue] > 0:
            room[queue] -= 1
            ids.append(execution_id)
    return ids
