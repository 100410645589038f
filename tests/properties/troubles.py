"""Time, the loops, operators, deaths, and what Redis forgets, each with what may follow from it."""

from __future__ import annotations

from taskengine.lifecycle.operate import cancel, redrive
from tests.properties.model import nothing, orphaned, orphaned_from
from tests.properties.observer import Move, Row
from tests.properties.shaky import Fault
from tests.properties.site import Daemon
from tests.properties.stage import Plan, Stage

LOOPS = ["promoter", "deliveries", "requeue", "divergence", "over_time", "beat", "dead_workers"]
OPERATORS = ["cancel", "redrive", "pause", "resume"]
DISASTERS = ["crash", "shut down", "flush", "lose a key", "save or restore"]

_STANDING = """
select a.fence = e.fence as of_this_claim
from task_attempts a join task_executions e on e.id = a.execution_id
where e.id = $1 and a.attempt = e.attempt and (
  a.move in ('failed', 'discarded', 'orphaned', 'interrupted')
  or (a.move = 'cancelled' and a.started_at is not null))
"""


class Troubles(Stage):
    """What happens to executions on their way."""

    def later(self, daemon: Daemon, i: int, seconds: int, plan: Plan) -> None:
        self.act(daemon, self.site.later(seconds), nothing)

    def loop(self, daemon: Daemon, i: int, name: str, plan: Plan) -> None:
        """One turn of a loop."""
        if name == "beat":
            self._beat(daemon, plan)
        elif name == "dead_workers":
            self._bury(daemon, self.daemon(i), plan)
        else:
            may = orphaned if name == "over_time" else nothing
            self.act(daemon, getattr(daemon, name).tick(), may, plan)

    def _beat(self, daemon: Daemon, plan: Plan) -> None:
        """Strays go back, the same attempt; who is declared dead begins anew."""
        worker, known = daemon.worker_id, set(daemon.crew.inflight.known())

        def may(m: Move) -> bool:
            return m.old == "running" and m.worker == worker and m.id not in known and m.step == 0

        self.act(daemon, daemon.beat(), may, plan)
        daemon.forget_lost()

    def _bury(self, daemon: Daemon, other: Daemon, plan: Plan) -> None:
        """Who was silent for a lease is declared dead, stopped or not; who is gone was seen so by
        his lock."""
        victims = set()
        if daemon is not other:
            self.site.do(daemon.silence(other.worker_id))
            victims = {other.worker_id}
        living = {each.worker_id for each in self.daemons} - victims
        gone = {row.worker for row in self.rows.values() if row.worker} - living
        may = orphaned_from(gone | self.model.buried)
        self.act(daemon, daemon.dead_workers.tick(), may, plan)

    def operate(self, daemon: Daemon, i: int, name: str, plan: Plan) -> None:
        rows = list(self.rows.values())
        ended = [row for row in rows if row.can_be_redriven]
        queue = daemon.parts.queues.names[i % 2]
        if name == "redrive" and ended:
            self._redrive(daemon, ended[i % len(ended)], plan)
        elif name == "pause":
            self.act(daemon, self.site.pause(queue, paused=True), nothing)
            self.model.paused.add(queue)
        elif name == "resume":
            self.model.paused.discard(queue)
            self.act(daemon, self.site.pause(queue, paused=False), nothing)
        else:
            self._cancel(daemon, rows[i % len(rows)], plan)

    def _cancel(self, daemon: Daemon, row: Row, plan: Plan) -> None:
        def may(m: Move) -> bool:
            return (m.id, m.old, m.new, m.step) == (row.id, "pending", "cancelled", 0)

        answer = self.act(daemon, cancel(daemon.parts, [row.id], "ann", ""), may, plan)
        words = {"pending": "cancelled", "running": "requested"}
        if answer is not None:
            assert answer == {row.id: words.get(row.state, f"already {row.state}")}

    def _redrive(self, daemon: Daemon, row: Row, plan: Plan) -> None:
        """The next attempt, where this one stands in the history as used."""
        standing = self.site.do(daemon.sql(_STANDING, row.id))
        most = int(bool(standing))
        least = int(any(each["of_this_claim"] for each in standing))

        def may(m: Move) -> bool:
            return (m.id, m.new) == (row.id, "pending") and least <= m.step <= most

        work = redrive(daemon.parts, row.id, "ann", from_start=False)
        self.act(daemon, work, may, plan)
        assert self.rows[row.id].state == "pending" or plan[0] is Fault.STORE_UNREACHED

    def disaster(self, daemon: Daemon, i: int, name: str, plan: Plan) -> None:
        match name:
            case "crash":
                self._replace(daemon)
            case "shut down":
                self._shut_down(daemon, plan)
            case "flush":
                self.act(daemon, self.site.flush(), nothing)
            case "lose a key":
                self.act(daemon, self.site.lose(i), nothing)
            case _ if self.file is None:
                self.file = self.act(daemon, self.site.remember(), nothing)
            case _:
                self.act(daemon, self.site.restore(self.file or {}), nothing)
                self.file = None

    def _replace(self, daemon: Daemon) -> None:
        """It is gone; another one joins. What it knew is lost, but for its late words."""
        daemon.die()
        self.daemons.remove(daemon)
        another = self.act(self.daemons[0], self.site.join(), nothing)
        another.past = [*daemon.past, *daemon.held]

    def _shut_down(self, daemon: Daemon, plan: Plan) -> None:
        """What has begun is interrupted, the rest given back; no attempt is used."""
        worker = daemon.worker_id

        def may(m: Move) -> bool:
            return m.old == "running" and m.worker == worker and m.step == 0

        self.act(daemon, daemon.leave(), may, plan)
        self._replace(daemon)
