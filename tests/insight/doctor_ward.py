"""What the doctor's tests have in common: a system that is well, and what is found in it."""

from __future__ import annotations

from typing import Any

from taskengine.cli.doctor_fixes import Mended, fix
from taskengine.insight.doctor.examination import examine
from taskengine.insight.doctor.finding import Finding
from taskengine.model.job import JobHandle
from taskengine.store import workers
from tests.support.make import Hands, a_job

# The servers of the tests may lose what they commit: they are thrown away.
OF_THE_SERVERS = {"postgres.fsync", "postgres.full_page_writes", "postgres.synchronous_commit"}
OLD = "sql:now() - interval '1 min'"


class Ward(Hands):
    """A daemon that has just beaten and knows its job."""

    async def well(self, *jobs: JobHandle) -> Ward:
        await self.know(*(jobs or [a_job()]))
        await self.sql("update task_workers set jobs = $1", self.parts.registry.names)
        async with self.parts.store.connection() as c:
            loops = '{"scheduler": {"age": 1.0}}'
            await workers.beat(c, self.worker_id, [], loops, draining=False)
        return self

    async def beat_on(self) -> None:
        """So that it is not silent, however slow the test is."""
        await self.sql("update task_workers set last_beat_at = now() + interval '1 min'")

    async def found(self) -> list[Finding]:
        await self.beat_on()
        return [each for each in await examine(self.parts) if each.code not in OF_THE_SERVERS]

    async def codes(self) -> list[str]:
        return [each.code for each in await self.found()]

    async def only(self, code: str) -> Finding:
        """The one finding."""
        found = await self.found()
        assert [each.code for each in found] == [code]
        return found[0]

    async def mended(self, code: str) -> Mended:
        """Found, mended by `--fix`, and then nothing is found."""
        (done,) = await fix(self.parts, [await self.only(code)], "cli:me")
        assert (done.code, done.error) == (code, None)
        assert await self.found() == []
        return done

    async def old(self, key: str = "k", **columns: Any) -> int:
        """A pending row that is no longer fresh, and has no message."""
        made = await self.insert(key=key, delay=columns.pop("delay", 0.0))
        await self.change(made.id, created_at=OLD, **columns)
        return made.id
