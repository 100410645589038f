"""The model: who holds what, which key is whose, and what may follow from what.

It is small because the page is: a row is claimed once at a time (I2), moved out of running by its
holder or by recovery alone, has one key (I3) and one waiting message (I4), and uses an attempt only
where a body began and did not succeed (I6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from taskengine.model.execution import Dispatched
from tests.properties.observer import Messages, Move, Row

May = Callable[[Move], bool]


@dataclass
class Model:
    """What is known from outside."""

    holder: dict[int, int] = field(default_factory=dict)  # id → token of its claim
    keys: dict[tuple[str, str], int] = field(default_factory=dict)
    created: set[int] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)
    buried: set[int] = field(default_factory=set)  # workers

    def dispatched(self, job: str, answer: Dispatched) -> None:
        """I3: one row a key, made once."""
        known = self.keys.setdefault((job, answer.key), answer.execution_id)
        assert known == answer.execution_id, f"two rows for {answer.key}"
        if answer.created:
            assert known not in self.created, f"execution {known} was made twice"
            self.created.add(known)

    def moved(self, moves: Iterable[Move], may: May) -> None:
        """Each move follows from what was done, and from the state before it."""
        for move in moves:
            assert may(move), f"nothing that was done explains {move}"
            if move.old == move.new == "running":  # asked for again under the same token
                assert self.holder[move.id] == move.new_token
                assert move.step == 0
            elif move.new == "running":
                self._claimed(move)
            elif move.old == "running":
                assert self.holder.pop(move.id) == move.token, f"not by its holder: {move}"

    def _claimed(self, move: Move) -> None:
        assert move.old == "pending", f"claimed while {move.old}: {move}"
        assert move.id not in self.holder, f"claimed twice: {move}"
        assert move.due, f"claimed before its time: {move}"
        assert move.queue not in self.paused, f"claimed from a paused queue: {move}"
        assert move.worker not in self.buried, f"claimed by the dead: {move}"
        assert move.step == 0, f"a claim uses no attempt: {move}"
        assert move.new_token is not None
        self.holder[move.id] = move.new_token

    def compare(self, rows: Mapping[int, Row], found: Messages) -> None:
        """Rows and messages as they stand."""
        running = {row.id: row.token for row in rows.values() if row.state == "running"}
        assert running == self.holder
        held = Counter(rows[each].exclusive_key for each in running)
        held.pop(None, None)
        assert all(count == 1 for count in held.values()), f"an exclusive key is held twice: {held}"
        for row in rows.values():
            assert row.checked_in_time or row.ended, f"the sweep will not look for long: {row}"
        for execution_id, places in found.waiting.items():
            assert len(places) == 1, f"execution {execution_id} waits in {places}"  # I4
        for where in found:
            for execution_id, places in where.items():
                assert execution_id in rows, f"a message without a row: {execution_id}"
                assert set(places) == {rows[execution_id].queue}, f"in another's queue: {places}"


def nothing(_: Move) -> bool:
    return False


def claims_by(worker: int, jobs: Iterable[str]) -> May:
    """This worker claims what it knows; after a lost reply it asks again under the same token."""
    known = set(jobs)

    def may(m: Move) -> bool:
        asked_again = m.old == "running" and m.token == m.new_token
        from_where = m.old == "pending" or asked_again
        return m.new == "running" and from_where and m.worker == worker and m.job in known

    return may


def orphaned(move: Move) -> bool:
    """It leaves running; an attempt is used, unless that was the last."""
    return move.old == "running" and move.step == (move.new == "pending")


def orphaned_from(workers: Iterable[int]) -> May:
    """The rows of these workers are."""
    dead = set(workers)
    return lambda m: m.worker in dead and orphaned(m)
