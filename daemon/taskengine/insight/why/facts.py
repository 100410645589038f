"""What both stores say of one execution, read at one moment and not yet judged."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from taskengine.broker.queue import Place
from taskengine.insight.redis_state import RedisState
from taskengine.lifecycle.claiming import lanes_of
from taskengine.model.execution import Attempt
from taskengine.store.why import COUNTED, KeyState, Line, Load, Pace, Row


class Verdict(NamedTuple):
    """One reason: a stable code, words that go on from "it …", and commands to type."""

    code: str
    text: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that has neither stopped nor been declared dead; `silence`: since its last beat."""

    name: str
    queues: Sequence[str]
    jobs: Sequence[str]
    slots: int
    draining: bool
    direct: bool
    silence: float
    load: Load

    @property
    def is_full(self) -> bool:
        return self.load.running >= self.slots

    def lane_is_full(self, orphanings: int) -> bool:
        """Whether it takes no more that were orphaned so often (see "Quarantine lane")."""
        lanes = lanes_of(self.slots)
        if orphanings == 1:
            return self.load.once >= lanes.once
        return self.load.again >= lanes.again


@dataclass(frozen=True, slots=True)
class Settings:
    """What of the configuration the words need; seconds."""

    queues: Sequence[str]
    lease: float
    check_after: float
    sweep: float
    divergence: float
    reserve_grace: float


@dataclass(frozen=True, slots=True)
class Facts:
    """`history`: its last lines; `moves`: how often each move is in all of it; `paused`: queues.
    `place`, `pace` and `key` are asked for pending ones only; `lines`, by Postgres, where claims go
    straight to it."""

    row: Row
    history: Sequence[Attempt]
    moves: Mapping[str, int]
    daemons: Sequence[Daemon]
    settings: Settings
    redis: RedisState
    place: Place | None = None
    pace: Pace | None = None
    key: KeyState | None = None
    lines: Mapping[str, Line] | None = None
    paused: Collection[str] = ()

    @property
    def at(self) -> datetime:
        return self.row.at

    @property
    def is_due(self) -> bool:
        return self.row.run_at <= self.at

    @property
    def pending_since(self) -> datetime:
        """When it became pending, or due, whichever was later."""
        ended = self.last.ended_at if self.last is not None else self.row.created_at
        return max(self.row.created_at, ended, self.row.run_at)

    @property
    def taken_at(self) -> datetime | None:
        """When recovery takes it from a worker that could not settle it."""
        if self.row.deadline_at is None or self.row.timeout is None:
            return None
        return self.row.deadline_at + timedelta(seconds=self.row.timeout)

    @property
    def last(self) -> Attempt | None:
        """The last line of its history."""
        return self.history[-1] if self.history else None

    @property
    def asked(self) -> Attempt | None:
        """The line that says who asked its run, under way or last, to stop."""
        lines = (e for e in self.history if e.move == "abort_asked" and e.fence == self.row.fence)
        return next(lines, None)

    @property
    def living(self) -> list[Daemon]:
        """Those that beat."""
        return [each for each in self.daemons if each.silence <= self.settings.lease]

    @property
    def polling(self) -> list[Daemon]:
        """Those that take from its queue."""
        return [d for d in self.living if not d.draining and self.row.queue in d.queues]

    @property
    def able(self) -> list[Daemon]:
        """Those that take from its queue and know its job."""
        return [each for each in self.polling if self.row.job in each.jobs]

    @property
    def is_listed(self) -> bool:
        """Whether its queue is one of those that are served and swept."""
        return self.row.queue in self.settings.queues

    @property
    def ahead(self) -> dict[str, int]:
        """What waits in the queues that are served first."""
        listed = self.settings.queues
        first = listed[: listed.index(self.row.queue)] if self.is_listed else ()
        counts = {name: self._waits(name) for name in first if name not in self.paused}
        return {name: count for name, count in counts.items() if count}

    @property
    def before(self) -> int | None:
        """How many are before it in its own queue; None where that is not known."""
        if self.lines is not None:
            line = self.lines.get(self.row.queue)
            return line.older if line is not None and line.older < COUNTED else None
        return self.place.rank if self.place is not None else None

    @property
    def waiting(self) -> int | None:
        """How many wait in its queue."""
        if self.lines is not None:
            return self._waits(self.row.queue)
        return self.place.waiting if self.place is not None else None

    @property
    def eta(self) -> float | None:
        """Seconds until it is likely to be taken, by its place in line and the queue's pace."""
        if self.before is None or not self.pace or not self.pace.ended:
            return None
        return 60 * self.before / self.pace.per_minute

    def _waits(self, queue: str) -> int:
        if self.lines is not None:
            line = self.lines.get(queue)
            return line.due if line is not None else 0
        depth = (self.redis.depths or {}).get(queue)
        return depth.waiting if depth is not None else 0

    def ago(self, moment: datetime) -> float:
        """Seconds since then, never negative."""
        return max(0.0, (self.at - moment).total_seconds())

    def until(self, moment: datetime) -> float:
        """Seconds until then; negative when it is over."""
        return (moment - self.at).total_seconds()
