"""The way of one execution, verb by verb, each with what may follow from it."""

from __future__ import annotations

from taskengine.model.execution import Claim, Reservation, State
from taskengine.model.outcome import Ending, Outcome
from taskengine.model.settlement import decide
from tests.properties.healing import take, take_direct
from tests.properties.model import nothing
from tests.properties.observer import Move, Row
from tests.properties.site import Daemon
from tests.properties.stage import WELL, Plan, Stage
from tests.support.make import (
    CANCELLED,
    DISCARDED,
    FAILED,
    INTERRUPTED,
    RELEASED,
    SNOOZED,
    SUCCEEDED,
)

Sent = tuple[str, str | None, float, str | None]
"""A dispatch: job, key, delay in seconds, exclusive key."""

STEPS = [
    "reserve",
    "claim",
    "claim and forget",
    "acknowledge",
    "put away",
    "turn",
    "turn directly",
]
OUTCOMES = [SUCCEEDED, FAILED, DISCARDED, SNOOZED, RELEASED, INTERRUPTED, CANCELLED]
ANSWERS = [
    Outcome(Ending.VERIFIED, reason="verified"),
    Outcome(Ending.UNVERIFIED, reason="unverified", error="cannot know"),
    Outcome(Ending.UNANSWERED, reason="unanswered", error="verify: timed out"),
]
"""Where verify is asked first, they stand for the outcome of the same place in `OUTCOMES`."""


class Verbs(Stage):
    """Dispatch, reserve, claim, acknowledge, put away, settle."""

    def dispatch(self, daemon: Daemon, i: int, sent: Sent, plan: Plan) -> None:
        """One row a key (I3); what is pending is delivered, or the answer says no (I5)."""
        job, key, delay, exclusive = sent
        work = daemon.dispatch(job, key, delay=delay, exclusive_key=exclusive)
        answer = self.act(daemon, work, nothing, plan)
        if answer is None:
            return
        row = self.rows[answer.execution_id]
        self.model.dispatched(job, answer)
        assert answer.state == row.state
        if answer.delivered:
            assert row.state == State.PENDING
            assert row.id in self.found.waiting
        else:
            assert row.state != State.PENDING or plan[0] is not None

    def acquire(self, daemon: Daemon, i: int, step: str, plan: Plan) -> None:
        """The steps of a worker's turn one by one, or all of them."""
        most = (1, 2, 100)[i % 3]
        if step in ("claim", "claim and forget") and daemon.reserved:
            self._claim(daemon, plan, holds=step == "claim")
        elif step in ("acknowledge", "put away") and daemon.claimed:
            self._let_go(daemon, step, plan)
        elif step == "reserve":
            daemon.reserved += self.act(daemon, daemon.reserve(most), nothing, plan) or []
        elif step == "turn directly":
            self.act(daemon, take_direct(daemon, most), self.claims(daemon), plan)
        else:
            self.act(daemon, take(daemon), self.claims(daemon), plan)

    def _claim(self, daemon: Daemon, plan: Plan, *, holds: bool) -> None:
        """What it reserved; a lost reply is asked for again. An error after the claim (`holds` is
        false) leaves rows that run under it and that it does not know."""
        reserved, daemon.reserved = daemon.reserved, []
        if not holds:
            self.act(daemon, daemon.claim(*(r.id for r in reserved)), self.claims(daemon), plan)
            return
        work = daemon.crew.acquirer.claim(reserved, daemon.worker_id)
        claims = self.act(daemon, work, self.claims(daemon), plan)
        daemon.hold(claims)
        daemon.claimed = (reserved, claims)
        assert all(self.model.holder[claim.id] == claim.token for claim in claims)

    def _let_go(self, daemon: Daemon, step: str, plan: Plan) -> None:
        """Of what was reserved."""
        reserved, claims = daemon.claimed
        if step == "acknowledge":
            self.act(daemon, daemon.ack(*claims), nothing, plan)
        else:
            daemon.claimed = ()
            self.act(daemon, daemon.crew.acquirer.put_away(reserved, claims), nothing, plan)

    def stray(self, daemon: Daemon, i: int, _: None, plan: Plan) -> None:
        """A message of long ago, or a double of another one: of any row, due or not; best of one
        that is not to be claimed."""
        rows = [row for row in self.rows.values() if self._waits(row)] or list(self.rows.values())
        row = rows[i % len(rows)]
        reserved = [Reservation(row.id, row.queue)]
        work = daemon.crew.acquirer.claim(reserved, daemon.worker_id)
        daemon.hold(self.act(daemon, work, self.claims(daemon), plan))
        daemon.crew.acquirer.take_left()

    def _waits(self, row: Row) -> bool:
        """Pending, and nowhere in a queue: for its time, its key, or to be delivered."""
        return row.state == State.PENDING and row.id not in self.found.waiting

    def settle(self, daemon: Daemon, i: int, number: int, plan: Plan) -> None:
        """What a daemon holds, or believes to hold."""
        daemon = self.daemon(i, lambda daemon: daemon.held)
        if not daemon.held:
            self.act(daemon, take(daemon), self.claims(daemon), plan)
            return
        claim = daemon.held[i % len(daemon.held)]
        outcomes = ANSWERS if claim.asks else OUTCOMES
        self._settle(daemon, claim, outcomes[number % len(outcomes)], plan)

    def settle_late(self, daemon: Daemon, i: int, number: int, plan: Plan) -> None:
        """What was settled or lost long ago, in another way; best where somebody else holds it now."""
        daemon = self.daemon(i, self._superseded)
        claims = self._superseded(daemon) or daemon.past
        if claims:
            self._settle(daemon, claims[i % len(claims)], OUTCOMES[number], WELL)

    def _superseded(self, daemon: Daemon) -> list[Claim]:
        """Its old claims of rows that run under another one."""
        return [claim for claim in daemon.past if claim.id in self.model.holder]

    def _settle(self, daemon: Daemon, claim: Claim, outcome: Outcome, plan: Plan) -> None:
        """I2: moved once if it is the holder's, else not at all. I6: only a failure counts."""
        holds = self.model.holder.get(claim.id) == claim.token
        state = getattr(decide(claim, outcome, daemon.parts.rng), "state", "succeeded")
        used = int(state == "pending" and outcome is FAILED)

        def may(m: Move) -> bool:
            as_decided = m.new == state and m.step == used
            aborted = m.new == "cancelled" and state != "succeeded" and m.step == 0
            return (m.id, m.token) == (claim.id, claim.token) and (as_decided or aborted)

        before = self.rows[claim.id]
        self.act(daemon, daemon.end((claim, outcome)), may, plan)
        after = self.rows[claim.id]
        if holds:
            assert after.state != "running"
            assert after.fence == claim.fence
        else:
            assert after == before
