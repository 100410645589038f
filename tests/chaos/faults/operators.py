"""Clocks are wrong, operators pause and change things, leases vanish."""

from __future__ import annotations

from typing import ClassVar

from tests.chaos.faults.base import Fault
from tests.chaos.faults.postgres import _OfPostgres


class _Clock(Fault):
    group: ClassVar = "clocks"
    seconds: ClassVar = (5.0, 12.0)
    sign: ClassVar[int]

    async def begin(self) -> None:
        self.member = self.a_member()
        offset = self.sign * self.rng.choice((20, 600, 7200))
        self.about += f" by {offset} s"
        await self.member.tell("offset", offset)

    async def end(self) -> None:
        await self.member.tell("offset", 0)


class Ahead(_Clock):
    kind: ClassVar = "clock-ahead"
    sign: ClassVar = 1


class Behind(_Clock):
    kind: ClassVar = "clock-behind"
    sign: ClassVar = -1


class Paused(_OfPostgres):
    """An operator pauses a queue and resumes it."""

    kind: ClassVar = "queue-paused"
    group: ClassVar = "operators"
    seconds: ClassVar = (3.0, 8.0)

    async def begin(self) -> None:
        self.about = self.rng.choice(("payroll", "high", "default", "low"))
        await self.do(
            "insert into task_queues (name, paused_at, paused_by, pause_reason) "
            f"values ('{self.about}', now(), 'chaos', 'chaos') "
            "on conflict (name) do update set paused_at = now()"
        )

    async def end(self) -> None:
        await self.do(f"update task_queues set paused_at = null where name = '{self.about}'")


class Disabled(_OfPostgres):
    """A definition is switched off: what is pending still runs, dispatches are refused."""

    kind: ClassVar = "job-disabled"
    group: ClassVar = "operators"
    seconds: ClassVar = (2.0, 5.0)

    async def begin(self) -> None:
        self.about = self.rng.choice(("flaky", "hook", "rare", "sleepy"))
        await self._set("false")

    async def end(self) -> None:
        await self._set("true")

    async def _set(self, value: str) -> None:
        await self.do(
            f"update task_job_definitions set is_enabled = {value} where name = '{self.about}'"
        )


class LeasesGone(_OfPostgres):
    """The sweeps' lease rows are deleted by hand."""

    kind: ClassVar = "leases-deleted"
    group: ClassVar = "operators"

    async def begin(self) -> None:
        await self.do("delete from task_leases")


KINDS: tuple[type[Fault], ...] = (Ahead, Behind, Paused, Disabled, LeasesGone)
