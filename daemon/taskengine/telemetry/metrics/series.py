"""The series of every family: made once each, then found by what an event says at the cost of a dict.

Guarantee: what is known exists from 0, because an alert on a series that is not there stays silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from taskengine.telemetry.metrics.families import (
    MISSES,
    NOTICES,
    OUTCOMES,
    RESULTS,
    TURNS,
    Families,
)
from taskengine.telemetry.metrics.labels import LOOPS, OTHER, Children, Label

_TASKS = 200  # that are met without having been made known
_REASONS = 20


class Series:
    """`tasks`: the jobs known at the start as (queue, task)."""

    def __init__(
        self,
        families: Families,
        queues: Sequence[str],
        sources: Sequence[str],
        tasks: Sequence[tuple[str, str]],
    ) -> None:
        queue, source = Label(queues), Label(sources)
        task = Label((name for _, name in tasks), room=_TASKS)
        self.dispatched = Children(families.dispatched.labels, queue, task)
        self.claimed = Children(families.claimed.labels, queue, task)
        self.settled = Children(families.settled.labels, queue, task, Label(OUTCOMES))
        self.duration = Children(families.duration.labels, queue, task)
        self.wait = Children(families.wait.labels, queue)
        self.orphaned = Children(families.orphaned.labels, queue)
        self.promoted = Children(families.promoted.labels, queue)
        self.requeued = Children(families.requeued.labels, queue)
        self.foreign = Children(families.foreign.labels, queue)
        self.rowless = Children(families.rowless.labels, queue)
        self.notices = Children(families.notices.labels, Label(NOTICES))
        self.fires = Children(families.fires.labels, task)
        self.misses = Children(families.misses.labels, task, Label(MISSES, room=_REASONS))
        self.received = Children(families.received.labels, source, Label(RESULTS))
        self.processed = Children(families.processed.labels, source)
        self.recovered = Children(families.recovered.labels, source)
        self.turns = Children(families.turns.labels, Label(room=LOOPS), Label(TURNS))
        self._from_zero(queue.values, source.values)
        for each in tasks:
            self._know(*each)

    def _know(self, queue: str, task: str) -> None:
        self.dispatched(queue, task)
        self.claimed(queue, task)
        self.duration(queue, task)
        for outcome in OUTCOMES:
            self.settled(queue, task, outcome)

    def know_schedule(self, task: str) -> None:
        """A job that fires by itself: that it fired or was missed is counted from 0."""
        self.fires(task)
        for reason in MISSES:
            self.misses(task, reason)

    def know_loop(self, loop: str) -> None:
        """A loop of this process."""
        for result in TURNS:
            self.turns(loop, result)

    def _from_zero(self, queues: Iterable[str], sources: Iterable[str]) -> None:
        for queue in queues:
            self._know(queue, OTHER)
            for of in (self.wait, self.orphaned, self.promoted, self.requeued):
                of(queue)
            self.foreign(queue)
            self.rowless(queue)
        for result in NOTICES:
            self.notices(result)
        for source, result in product(sources, RESULTS):
            self.received(source, result)
            self.processed(source)
            self.recovered(source)
