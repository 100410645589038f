"""How long it takes until a fault is over: from its end until all that was due or running then has
been settled or claimed again. One question every half second answers for all faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from taskengine.insight.why import Explanation
from tests.chaos.cluster import LOST, Cluster, Connection
from tests.chaos.history import history_of
from tests.chaos.report import Report, Struck

_LOOK = 0.5
_LIMIT = 120.0
_SLOW = 12.0

_OPEN = """
select id, fence, state from task_executions
where state = 'running' or (state = 'pending' and run_at <= now()
  and queue not in (select name from task_queues where paused_at is not null))
"""
_WHAT = (
    "select format('%s %s, orphaned %s', id, job, orphanings) from task_executions where id = $1"
)

Why = Callable[[int], Awaitable[Explanation]]
Open = frozenset[tuple[int, int, str]]


@dataclass
class _Waiting:
    """A fault that has ended. `left` is None until Postgres could first be asked."""

    struck: Struck
    since: float
    left: Open | None = None


class Recoveries:
    """Measures each fault that ended, on a connection of its own."""

    def __init__(self, cluster: Cluster, report: Report, why: Why) -> None:
        self._cluster = cluster
        self._why = why
        self._report = report
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    def ended(self, struck: Struck) -> None:
        self._waiting.append(_Waiting(struck, time.monotonic()))
        if self._task is None:
            self._task = asyncio.create_task(self._watch())

    async def done(self) -> None:
        """Until all are over. What ended the watch itself is raised: it is a fault of the harness."""
        while self._waiting:
            if self._task is not None and self._task.done():
                self._task.result()
            await asyncio.sleep(_LOOK)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            try:
                c = await self._cluster.connect()
                try:
                    while True:
                        await self._look(c)
                        await asyncio.sleep(_LOOK)
                finally:
                    c.terminate()
            except LOST:
                await asyncio.sleep(_LOOK)

    async def _look(self, c: Connection) -> None:
        asked = time.monotonic()
        open_: Open = frozenset((row[0], row[1], row[2]) for row in await c.fetch(_OPEN))
        for each in [w for w in self._waiting if w.since <= asked]:
            before = open_ if each.left is None else each.left
            each.left = before & open_
            if each.left and asked - each.since < _LIMIT:
                each.struck.last = await _named(c, each.left)
            else:
                self._over(each, asked)
                if asked - each.since > _SLOW and before:
                    each.struck.history = await history_of(c, min(before)[0])
                    each.struck.history.append(await self._told(min(before)[0]))

    async def _told(self, execution_id: int) -> str:
        """What the product itself says of one that has waited so long."""
        try:
            told = await self._why(execution_id)
        except Exception as error:
            return f"why: {error!r}"
        return " · ".join(["why: " + told.headline, *(each.text for each in told.also)])

    def _over(self, each: _Waiting, now: float) -> None:
        struck = each.struck
        struck.recovery = now - each.since
        struck.recovered = not each.left
        struck.disturbed = any(
            other is not struck and (other.ended is None or other.ended > (struck.ended or 0.0))
            for other in self._report.struck
        )
        self._waiting.remove(each)


async def _named(c: Connection, left: Open) -> str:
    """The oldest that is left, and how many there are."""
    return f"{await c.fetchval(_WHAT, min(left)[0])} · {len(left)} left"
