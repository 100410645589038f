"""What the beat gives to everybody: who we are, the database's clock, who else has fallen silent.

A worker is dead only when this daemon has itself seen its counter unchanged for a whole lease on
its own monotonic clock, its own beats succeeding throughout: whoever was away himself (stopped,
starved, cut off) knows nothing about others and begins to watch anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Watch:
    """Other workers' counters, as seen by unbroken beats of our own. Seconds are monotonic."""

    lease: float
    beat: float
    by_lock: frozenset[int] = frozenset()
    on_death: list[Callable[[], None]] = field(default_factory=list)
    _seen: dict[int, tuple[int, float]] = field(default_factory=dict)
    _last: float | None = None

    def observe(self, now: float, counters: Iterable[tuple[int, int]]) -> None:
        """One successful beat of ours, and what it saw: (worker id, counter)."""
        if self._last is not None and now - self._last > 2 * self.beat + 1.0:
            self._seen.clear()
        self._last = now
        before, self._seen = self._seen, {}
        for worker_id, counter in counters:
            known = before.get(worker_id)
            since = known[1] if known and known[0] == counter else now
            self._seen[worker_id] = (counter, since)

    def proven(self, worker_ids: Iterable[int]) -> None:
        """These died on this host: their lock files say so."""
        self.by_lock = frozenset(worker_ids)
        if self.by_lock or self.silent():
            for callback in self.on_death:
                callback()

    def missed(self) -> None:
        """A beat of ours failed: what we saw no longer proves anything."""
        self._seen.clear()
        self._last = None

    def silent(self) -> list[tuple[int, int]]:
        """(worker id, counter) of those silent for a whole lease."""
        if self._last is None:
            return []
        return [
            (worker_id, counter)
            for worker_id, (counter, since) in self._seen.items()
            if self._last - since >= self.lease
        ]


@dataclass(slots=True)
class Identity:
    """This daemon's row in `task_workers`, and what its last beat brought back.

    `offset` is the database's clock minus our monotonic one, in seconds.
    """

    name: str
    worker_id: int = 0
    offset: float = 0.0
    dead: bool = False
    draining: bool = False
    last_beat: float | None = None

    def database_now(self, monotonic: float) -> float:
        """The database's clock as a Unix time."""
        return monotonic + self.offset

    def score(self, monotonic: float) -> int:
        """The same in µs: what `run_at` is in Redis."""
        return int(self.database_now(monotonic) * 1_000_000)
