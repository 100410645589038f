"""One run: start all, load, faults by the plan, quiet, verdict.

A fault of the harness (an exception of ours) ends the run; a fault of the product is a violation.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from taskengine import TaskEngine
from taskengine.lifecycle.definitions import sync
from tests.chaos.cluster import LOST, Cluster
from tests.chaos.faults import KINDS
from tests.chaos.invariants import Judge
from tests.chaos.ledger import Ledger
from tests.chaos.plan import Rhythm, Step, plan
from tests.chaos.recovery import Recoveries
from tests.chaos.report import Report, Struck, Violation
from tests.chaos.workload import Workload

_LOOK = 3.0
_QUIET_LIMIT = 150.0
_END_LIMIT = 60.0
_CLEAN_ENDS = (0, -9)


@dataclass(frozen=True)
class Order:
    """What is to be run. `rate`: dispatches a second; `only`: these kinds of faults, else all."""

    seed: int = 1
    minutes: float = 2.0
    daemons: int = 3
    rate: float = 110.0
    rhythm: Rhythm = field(default_factory=Rhythm)
    only: tuple[str, ...] = ()

    def plan(self) -> list[Step]:
        cards = [KINDS[kind].card() for kind in self.only or KINDS]
        return plan(self.seed, self.minutes * 60, cards, self.rhythm)


class Run:
    """A seed, its plan and what comes of it."""

    recoveries: Recoveries

    def __init__(self, order: Order) -> None:
        self.steps = order.plan()
        self.rate = order.rate
        self.length = order.minutes * 60
        self.report = Report(order.seed, order.minutes, order.daemons)
        self.folder = Path(tempfile.mkdtemp(prefix="taskengine-chaos-"))
        self.cluster = Cluster(self.folder, order.daemons)
        self.ledger = Ledger()
        self.judge = Judge(self.cluster, self.ledger, self.report)
        self._begun = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._begun

    async def run(self) -> Report:
        """All of it; the folder with its logs stays where something was wrong."""
        try:
            await self.cluster.start()
            await self._work()
        finally:
            await self.cluster.close()
        if self.report.ok:
            shutil.rmtree(self.folder)
        else:
            self.report.figures["logs"] = str(self.folder)
        return self.report

    async def _work(self) -> None:
        async with TaskEngine(self.cluster.config) as engine:
            await sync(engine.parts)
            self.recoveries = Recoveries(self.cluster, self.report, engine.why)
            self._begun, self.judge.begun = time.monotonic(), time.time()
            workload = Workload(self.cluster, engine, self.ledger, self.report.seed)
            workload.start(self.rate)
            looking = asyncio.create_task(self._look(workload))
            await asyncio.gather(*(self._strike(step) for step in self.steps))
            await asyncio.sleep(max(0.0, self.length - self.now()))
            loaded = self.now()
            await workload.stop()
            await self._calm(loaded)
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
        await self._end()

    async def _calm(self, loaded: float) -> None:
        """Load and faults are over: until all that is left has run."""
        figures = self.report.figures
        took = await self.judge.quiet(_QUIET_LIMIT)
        await self.recoveries.done()
        self.recoveries.close()
        for struck in self.report.struck:
            if not struck.recovered:
                detail = f"{struck}: {struck.last}"
                self.report.violations.append(
                    Violation("not recovered in time", detail, None, struck.history)
                )
        self.report.counts |= dict(self.ledger.counts)
        await self.judge.verdict()
        figures["executions a second"] = round(figures["executions"] / loaded, 1)
        figures["quiet after, s"] = round(took, 1)

    async def _look(self, workload: Workload) -> None:
        """Every few seconds, whatever is broken just now."""
        while True:
            await asyncio.sleep(_LOOK)
            if failure := workload.failure():
                raise failure
            with suppress(*LOST):
                await self.judge.look()

    # ---- faults ------------------------------------------------------------------------------

    async def _strike(self, step: Step) -> None:
        await asyncio.sleep(max(0.0, step.at - self.now()))
        fault = KINDS[step.kind](self.cluster, random.Random(step.seed), step.seconds)
        struck = Struck(step, "", self.now())
        self.report.struck.append(struck)
        try:
            await self._firmly(fault.begin)
            struck.about = fault.about
            await asyncio.sleep(step.seconds)
        finally:
            await self._firmly(fault.end)
        struck.ended = self.now()
        self.recoveries.ended(struck)

    async def _firmly(self, act: Callable[[], Awaitable[None]]) -> None:
        """Again, while another fault is in the way."""
        end = time.monotonic() + _END_LIMIT
        while True:
            try:
                await act()
            except Exception:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.3)
            else:
                return

    # ---- the end -----------------------------------------------------------------------------

    async def _end(self) -> None:
        """Daemons end in order; one that ended by itself, and not by a job's SIGKILL, is told."""
        for name, status in await self.cluster.stop():
            if status != 0:
                self._wrong(f"{name} ended with {status} when asked to stop")
        self.report.ends = self.cluster.ends
        for name, status in self.cluster.ends:
            if status not in _CLEAN_ENDS:
                self._wrong(f"{name} ended by itself with {status}")

    def _wrong(self, detail: str) -> None:
        faults = [str(each) for each in self.report.struck[-4:]]
        self.report.violations.append(Violation("a daemon's end", detail, None, [], faults))
