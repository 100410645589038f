"""Claiming on one connection: the plain rows by one statement, then those that need care by another.

Care: an exclusive key has at most one running row in the whole cluster, and a row that was orphaned
may kill its process again, so few of those run at a time (the quarantine lane). Guarantees: the same
token gives the same rows again, however often it is asked; one bad row holds up none of the others;
whoever was not claimed is named, with the reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol

from taskengine.errors import DataRejected, DuplicateKey
from taskengine.lifecycle.batches import halved
from taskengine.model.execution import Claim
from taskengine.store import executions, locks
from taskengine.store.execution_rows import Leftover
from taskengine.store.pool import Connection, attempt

Claiming = Callable[[Connection, Sequence[int], int, int, Sequence[str]], Awaitable[list[Claim]]]


class Why(Enum):
    """Why an execution was not claimed."""

    OVER = auto()  # gone, terminal, or running elsewhere
    EARLY = auto()
    UNKNOWN = auto()  # its job is not among those asked for
    PAUSED = auto()
    LOCKED = auto()  # behind somebody's lock
    BAD = auto()  # Postgres refuses to claim it
    LANE_FULL = auto()
    KEY_TAKEN = auto()  # its key is held, or an older one of the key goes first
    RACED = auto()  # it could be claimed by now: somebody else was faster, or has let it go


class Left(NamedTuple):
    """An execution that was not claimed. `error`: what Postgres said, where it is `BAD`."""

    row: Leftover
    why: Why
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Lanes:
    """How many more executions may be taken that were orphaned once, and more often."""

    once: int
    again: int

    def without(self, orphanings: Iterable[int]) -> Lanes:
        """What is left of them when these run, too."""
        counts = list(orphanings)
        once, again = counts.count(1), sum(n > 1 for n in counts)
        return Lanes(max(0, self.once - once), max(0, self.again - again))


def lanes_of(slots: int) -> Lanes:
    """The lanes of a process with so many slots, while nothing runs in it."""
    return Lanes(max(1, slots // 10), 1)


class _Flying(Protocol):
    @property
    def claim(self) -> Claim: ...
    @property
    def ended(self) -> bool: ...


def free_lanes(flights: Iterable[_Flying], slots: int) -> Lanes:
    """The same, less what runs in it now."""
    running = [flight.claim.orphanings for flight in flights if not flight.ended]
    return lanes_of(slots).without(running)


class Claimed(NamedTuple):
    """What came of claiming: everything asked for is in one of the two."""

    claims: list[Claim]
    left: list[Left]


class _Refused(NamedTuple):
    """What the statements refused by an error, by id."""

    errors: dict[int, Exception]

    async def add(self, execution_id: int, error: Exception) -> list[Claim]:
        self.errors[execution_id] = error
        return []


async def claim_all(
    c: Connection,
    ids: Sequence[int],
    worker_id: int,
    token: int,
    jobs: Sequence[str],
    lanes: Lanes,
    known: Sequence[str] | None = None,
) -> Claimed:
    """Claim what may be claimed of `ids` for this worker, under one token: of the `jobs` named.

    `known` (default: `jobs`) are those whose older rows go first under an exclusive key.

    In autocommit each statement commits by itself; inside a transaction (the caller may have locked
    the rows) everything is in it, and a statement that fails undoes only itself. Raises `Away` where
    Postgres is; the caller then repeats with the same arguments and gets the same claims: `lanes` as
    they were when the token was drawn, because what a lost reply had claimed is counted here.
    Nothing is written to a row that is left: marking waiters, failing a bad row, delaying is the
    caller's.
    """
    refused = _Refused({})
    claims = await _claim(executions.claim, c, ids, worker_id, token, jobs, refused)
    rest = _without(ids, claims)
    if not rest:
        return Claimed(claims, [])
    rows = await executions.leftover(c, rest, jobs)
    left = [judged(row, refused.errors.get(row.id)) for row in rows]
    wanted, left = _pick(left, lanes.without(claim.orphanings for claim in claims), claims)
    if not wanted:
        return Claimed(claims, left)
    order = [row.id for row in sorted(wanted, key=lambda row: (row.exclusive_key or "", row.id))]
    first = jobs if known is None else known
    apart = await _claim(_apart(first), c, order, worker_id, token, jobs, refused)
    taken = {claim.id for claim in apart}
    left += [_missed(row, refused.errors.get(row.id)) for row in wanted if row.id not in taken]
    return Claimed(claims + apart, left)


async def _claim(
    claiming: Claiming,
    c: Connection,
    ids: Sequence[int],
    worker_id: int,
    token: int,
    jobs: Sequence[str],
    refused: _Refused,
) -> list[Claim]:
    """The statement over all of them, or over halves of them where one is refused."""

    async def run(some: Sequence[int]) -> list[Claim]:
        async with attempt(c):
            return await claiming(c, some, worker_id, token, jobs)

    async def unlocked(some: Sequence[int]) -> Sequence[int]:
        free = await locks.unlocked(c, some)
        return [each for each in some if each in free]

    return await halved(ids, run, refused.add, unlocked)


def _apart(first: Sequence[str]) -> Claiming:
    """The second statement, told whose older rows go first."""

    async def claim_apart(
        c: Connection, ids: Sequence[int], worker_id: int, token: int, jobs: Sequence[str]
    ) -> list[Claim]:
        return await executions.claim_apart(c, ids, worker_id, token, jobs, first)

    return claim_apart


def judged(row: Leftover, error: Exception | None = None) -> Left:
    """Why the plain statement left this row; `RACED` says that nothing stands in its way."""
    if row.settled:
        return Left(row, Why.OVER)
    if error is not None:
        return _missed(row, error)
    if row.early:
        return Left(row, Why.EARLY)
    if not row.known:
        return Left(row, Why.UNKNOWN)
    return Left(row, Why.PAUSED if row.paused else Why.RACED)


def _missed(row: Leftover, error: Exception | None) -> Left:
    """Why a row that might be claimed was not."""
    if isinstance(error, DataRejected) and not isinstance(error, DuplicateKey):
        return Left(row, Why.BAD, error)
    if row.exclusive_key is not None and (error is None or isinstance(error, DuplicateKey)):
        return Left(row, Why.KEY_TAKEN)
    return Left(row, Why.RACED if error is None else Why.LOCKED)


def _pick(
    left: Sequence[Left], lanes: Lanes, claims: Sequence[Claim]
) -> tuple[list[Leftover], list[Left]]:
    """Of what nothing stands in the way of but its key or its past, the oldest first: what to claim
    by the second statement, and what is left for good."""
    once, again = lanes.once, lanes.again
    keys = {claim.exclusive_key for claim in claims} - {None}
    wanted: list[Leftover] = []
    rest = [each for each in left if each.why is not Why.RACED]
    open_ = [each.row for each in left if each.why is Why.RACED]
    for row in sorted(open_, key=lambda row: (row.score or 0, row.id)):
        key, orphanings = row.exclusive_key, row.orphanings or 0
        if key in keys:
            rest.append(Left(row, Why.KEY_TAKEN))
            continue
        if key is not None:
            keys.add(key)
        if (orphanings == 1 and once == 0) or (orphanings > 1 and again == 0):
            rest.append(Left(row, Why.LANE_FULL))
            continue
        once -= orphanings == 1
        again -= orphanings > 1
        if key is None and orphanings == 0:
            rest.append(Left(row, Why.RACED))
        else:
            wanted.append(row)
    return wanted, rest


def _without(ids: Sequence[int], claims: Sequence[Claim]) -> list[int]:
    claimed = {claim.id for claim in claims}
    return [each for each in ids if each not in claimed]
