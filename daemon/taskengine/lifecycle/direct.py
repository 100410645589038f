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
_Candidate = tuple[str, int, int]  # queue, score, id

_ANEW = 10.0  # seconds after which a long backlog is looked through from its start again


class Few(NamedTuple):
    """Jobs of which only so many may be taken."""

    jobs: Sequence[str]
    most: int


class _Search(NamedTuple):
    """Which jobs are looked for, how many, and in each queue from where."""

    jobs: tuple[str, ...]
    most: int
    queues: list[DueQueue]


class _Found(NamedTuple):
    """What became of a search: its jobs, the due rows that are to be claimed in their order, the
    queues looked into, and those of them that may have more."""

    jobs: tuple[str, ...]
    rows: list[DueRow]
    queues: list[str]
    full: set[str]


class _Chosen(NamedTuple):
    """What a turn is to claim."""

    ids: list[int]
    found: list[_Found]


class DirectMode:
    """When, and how."""

    def __init__(self, parts: Parts, acquirer: Acquirer) -> None:
        self._parts = parts
        self._acquirer = acquirer
        self._told = False
        # for the jobs looked for and a queue: the last one, and since when we go on from there
        self._seen: dict[tuple[tuple[str, ...], str], tuple[DueRow, float]] = {}
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
        self,
        limits: Sequence[tuple[str, int]],
        n: int,
        worker_id: int,
        jobs: Sequence[str],
        few: Few | None = None,
    ) -> tuple[list[Claim], bool]:
        """Up to `n` claims, each queue at most its limit, the first queue's first; and whether the
        next turn may follow at once. Of `few` no more than it says, in the same order."""
        n = min(n, MOST)
        shares = [Few(jobs, n)] if few is None else [Few(jobs, n), few]
        searches = [self._search(limits, share) for share in shares]
        asked = [name for share in shares for name in share.jobs]
        chosen: _Chosen | None = None

        async def attempt(token: int, lanes: Lanes) -> Claimed:
            nonlocal chosen
            async with self._parts.store.transaction() as c:
                if chosen is None:
                    chosen = await self._choose(c, searches, n, lanes)
                if not chosen.ids:
                    return Claimed([], [])
                known = self._acquirer.jobs
                return await claim_all(c, chosen.ids, worker_id, token, asked, lanes, known)

        claims = await self._acquirer.claimed(attempt)
        held_up, marked = await self._put_away()
        assert chosen is not None  # noqa: S101  Postgres has answered
        for found in chosen.found:
            self._go_on(found)
        self.more = held_up or any(found.full for found in chosen.found)
        full = sum(len(found.rows) for found in chosen.found) == n
        return claims, full and (marked or bool(claims))  # else we may be dead and not know it yet

    def _search(self, limits: Sequence[tuple[str, int]], share: Few) -> _Search:
        """In each queue from where the last search for these jobs left it: those that it passed over
        were others'."""
        jobs, most = tuple(share.jobs), min(share.most, MOST)
        now = self._parts.clock.monotonic()
        self._seen = {each: seen for each, seen in self._seen.items() if now - seen[1] < _ANEW}
        wanted = []
        open_ = [each for each in limits if each[0] not in self._acquirer.paused]
        for name, limit in open_:
            row, _ = self._seen.get((jobs, name), (None, 0.0))
            at = (None, None) if row is None else (row.run_at, row.id)
            wanted.append(DueQueue(name, min(limit, most), *at))
        return _Search(jobs, most, wanted)

    async def _choose(
        self, c: Connection, searches: Sequence[_Search], n: int, lanes: Lanes
    ) -> _Chosen:
        """The first `n` of the due rows and of the waiters whose key is free, each queue at most its
        limit. What is locked and not taken is free again when the transaction ends."""
        orphaned = (lanes.once > 0, lanes.again > 0)
        due: list[list[DueRow]] = []
        candidates: set[_Candidate] = set()
        for jobs, most, wanted in searches:
            rows = await lock_due(c, wanted, most, jobs, orphaned=orphaned)
            names = [queue.name for queue in wanted]
            woken = await executions.next_of_free_keys(c, names, most, jobs)
            found = {(row.queue, row.score, row.id) for row in rows}
            found |= {(each.queue, each.score, each.id) for each in woken}
            candidates |= _first(most, wanted, found)
            due.append(rows)
        taken = frozenset(each[2] for each in _first(n, searches[0].queues, candidates))
        pairs = zip(searches, due, strict=True)
        return _Chosen(sorted(taken), [_found(each, rows, taken) for each, rows in pairs])

    async def _put_away(self) -> tuple[bool, bool]:
        """Mark the refused waiters of a key, or they would be chosen again and again; whether any
        row waits for a lane or a key, and whether any was marked."""
        marked = False
        left = self._acquirer.take_left()
        self._acquirer.paused |= {e.row.queue for e in left if e.why is Why.PAUSED and e.row.queue}
        whys = {each.row.id: each.why for each in left}
        waiters = sorted(each for each, why in whys.items() if why is Why.KEY_TAKEN)
        if waiters:
            try:
                async with self._parts.store.connection() as c:
                    answers = await executions.mark_waiting(c, waiters, self._acquirer.jobs)
                marked = any(each.marked for each in answers)
            except (Away, StoreBusy):  # marked by the next turn
                return True, False
        return bool(waiters) or Why.LANE_FULL in whys.values(), marked

    def _go_on(self, found: _Found) -> None:
        """From what was chosen, in a queue that may have more; else from its start again."""
        now = self._parts.clock.monotonic()
        last = {row.queue: row for row in found.rows}
        for name in found.queues:
            place = (found.jobs, name)
            if name not in found.full:
                self._seen.pop(place, None)
            elif name in last:
                _, since = self._seen.get(place, (None, now))
                self._seen[place] = (last[name], since)


def _found(search: _Search, rows: Sequence[DueRow], taken: frozenset[int]) -> _Found:
    """Of a search's rows those that are taken; a queue that gave all it was to give, or more than
    is taken, may have more."""
    counts = Counter(row.queue for row in rows)
    spent = len(rows) == search.most
    full = {queue.name for queue in search.queues if spent or counts[queue.name] == queue.most}
    full |= {row.queue for row in rows if row.id not in taken}
    ours = [row for row in rows if row.id in taken]
    return _Found(search.jobs, ours, [queue.name for queue in search.queues], full)


def _first(n: int, wanted: Sequence[DueQueue], found: Iterable[_Candidate]) -> set[_Candidate]:
    """The first `n`, each queue at most its limit."""
    rank = {queue.name: place for place, queue in enumerate(wanted)}
    room = {queue.name: queue.most for queue in wanted}
    first: set[_Candidate] = set()
    for each in sorted(found, key=lambda each: (rank[each[0]], *each[1:])):
        if len(first) < n and room[each[0]] > 0:
            room[each[0]] -= 1
            first.add(each)
    return first
