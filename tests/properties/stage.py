"""Doing one thing, then looking at everything: what moved must follow from what was done."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from taskengine.errors import Away
from tests.properties.model import May, Model, claims_by
from tests.properties.observer import (
    Messages,
    Move,
    Row,
    buried_workers,
    messages,
    moves_after,
    rows_of,
)
from tests.properties.shaky import Fault
from tests.properties.site import Daemon, Site

Plan = tuple[Fault | None, int]
"""The fault that one step meets, and how many calls go well before."""

WELL: Plan = (None, 0)


class Stage:
    """What is known, and how it is brought up to date."""

    site: Site  # set by the test

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.rows: dict[int, Row] = {}
        self.found = Messages({}, {})
        self.seen = 0
        self.broken = False
        self.file: dict[str, Any] | None = None
        self.site.clear()

    @property
    def daemons(self) -> list[Daemon]:
        return self.site.daemons

    def daemon(self, n: int, fits: Callable[[Daemon], object] = bool) -> Daemon:
        """The `n`th, counted round; one of those that fit, if there are any."""
        fitting = [daemon for daemon in self.daemons if fits(daemon)] or self.daemons
        return fitting[n % len(fitting)]

    def act(
        self, daemon: Daemon, work: Coroutine[Any, Any, Any], may: May, plan: Plan = WELL
    ) -> Any:
        """Do it, under the fault; then look at everything. None where a store was away for it."""
        daemon.faults.arm(*plan)
        try:
            answer = self.site.do(work)
        except Away:
            assert plan[0] is not None, "nobody was away"
            answer = None
        finally:
            daemon.faults.arm(None)
        self._look(may)
        return answer

    def _look(self, may: May) -> None:
        moves, self.rows, self.found, buried = self.site.do(self._looked())
        self.model.moved(moves, may)
        self.model.buried = buried
        self.model.compare(self.rows, self.found)
        if moves:
            self.seen = moves[-1].number

    async def _looked(self) -> tuple[list[Move], dict[int, Row], Messages, set[int]]:
        parts = self.site.parts
        moves = await moves_after(parts, self.seen)
        return moves, await rows_of(parts), await messages(parts), await buried_workers(parts)

    def claims(self, daemon: Daemon) -> May:
        return claims_by(daemon.worker_id, daemon.parts.registry.names)
