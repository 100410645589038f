"""Postgres restarts, hangs, refuses to write, is full; others hold its locks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar

import asyncpg

from tests.chaos.cluster import Connection
from tests.chaos.faults.base import Fault

_OTHERS = """
select pg_terminate_backend(pid) from pg_stat_activity
where backend_type = 'client backend' and application_name like 'taskengine%'
"""


class _OfPostgres(Fault):
    group: ClassVar = "postgres"
    seconds: ClassVar = (0.2, 1.0)

    async def do(self, *statements: str) -> None:
        c = await self.cluster.connect()
        try:
            for statement in statements:
                await c.execute(statement)
        finally:
            await c.close()


class Restart(_OfPostgres):
    """Fast: sessions are ended, then a checkpoint."""

    kind: ClassVar = "postgres-restarted"
    seconds: ClassVar = (0.2, 5.0)

    async def begin(self) -> None:
        await asyncio.to_thread(self.cluster.servers.postgres.stop)

    async def end(self) -> None:
        await asyncio.to_thread(self.cluster.servers.postgres.start)


class Crash(Restart):
    """Immediate: as after a crash, the log is replayed."""

    kind: ClassVar = "postgres-crashed"

    async def begin(self) -> None:
        await asyncio.to_thread(self.cluster.servers.postgres.stop_immediately)


class Hangs(_OfPostgres):
    """Nothing is answered; connections stay open."""

    kind: ClassVar = "postgres-hangs"
    seconds: ClassVar = (2.0, 9.0)

    async def begin(self) -> None:
        await asyncio.to_thread(self.cluster.servers.postgres.freeze)

    async def end(self) -> None:
        await asyncio.to_thread(self.cluster.servers.postgres.thaw)


class ReadOnly(_OfPostgres):
    """25006: as after a failover to a standby."""

    kind: ClassVar = "postgres-read-only"
    seconds: ClassVar = (2.0, 7.0)

    async def begin(self) -> None:
        await self._set("on")

    async def end(self) -> None:
        await self._set("off")

    async def _set(self, value: str) -> None:
        await self.do(
            f"alter database taskengine set default_transaction_read_only = {value}", _OTHERS
        )


class Terminated(_OfPostgres):
    """Every backend of the engine's is terminated."""

    kind: ClassVar = "backends-terminated"

    async def begin(self) -> None:
        await self.do(_OTHERS)


class DiskFull(_OfPostgres):
    """53100 from the hot tables."""

    kind: ClassVar = "disk-full"
    seconds: ClassVar = (1.5, 5.0)

    async def begin(self) -> None:
        self.about = self.rng.choice(("task_executions", "task_attempts"))
        function = """
            create or replace function chaos.full() returns trigger language plpgsql as $$
            begin raise exception 'no space left on device' using errcode = '53100'; end $$
        """
        trigger = f"""
            create or replace trigger aaa_full before insert or update on {self.about}
            for each statement execute function chaos.full()
        """
        await self.do(function, "set lock_timeout = '5s'", trigger)

    async def end(self) -> None:
        await self.do(f"drop trigger if exists aaa_full on {self.about}")


class _Holds(_OfPostgres):
    """Somebody's transaction stays open with a lock in it."""

    seconds: ClassVar = (4.0, 8.0)
    statement: ClassVar[str]

    async def begin(self) -> None:
        self._c: Connection = await self.cluster.connect()
        self._holder = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await self._c.execute("begin")
            await self._c.execute(self.statement)

    async def end(self) -> None:
        self._holder.cancel()
        await asyncio.gather(self._holder, return_exceptions=True)
        self._c.terminate()


class TableLocked(_Holds):
    kind: ClassVar = "table-locked"
    statement: ClassVar = "lock table task_executions in share row exclusive mode"


class TableShut(_Holds):
    """Nobody may even read."""

    kind: ClassVar = "table-locked-from-readers"
    seconds: ClassVar = (3.0, 6.0)
    statement: ClassVar = "lock table task_executions in access exclusive mode"


class RowsLocked(_Holds):
    """An operator has looked at some rows with `for update` and gone to lunch."""

    kind: ClassVar = "rows-locked"
    statement: ClassVar = """
        select from task_executions where state in ('pending', 'running') order by id limit 60
        for update skip locked
    """


class WorkersLocked(_Holds):
    """The rows that beats write."""

    kind: ClassVar = "workers-locked"
    seconds: ClassVar = (5.0, 7.0)
    statement: ClassVar = "select from task_workers where stopped_at is null for update"


class Altered(_OfPostgres):
    """A migration: every cached plan of every connection is stale."""

    kind: ClassVar = "table-altered"
    seconds: ClassVar = (1.0, 3.0)

    async def begin(self) -> None:
        add = "alter table task_executions add column if not exists chaos_x integer default 7"
        await self.do("set lock_timeout = '5s'", add)

    async def end(self) -> None:
        await self.do("alter table task_executions drop column if exists chaos_x")


KINDS: tuple[type[Fault], ...] = (
    *(Restart, Crash, Hangs, ReadOnly, Terminated, DiskFull),
    *(TableLocked, TableShut, RowsLocked, WorkersLocked, Altered),
)
