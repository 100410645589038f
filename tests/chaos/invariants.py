"""The promises, judged from outside: by triggers while it runs, by queries at the end.

Triggers (`observer.sql`) see each claim and settlement as it is committed, so what must never happen
is known within seconds. What must have happened in the end (`checks.sql`) is asked once all is quiet.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

from redis.asyncio import Redis

from tests.chaos import journal
from tests.chaos.cluster import Cluster, Connection
from tests.chaos.history import history_of
from tests.chaos.ledger import Ledger
from tests.chaos.report import Report, Violation

_NAMED = re.compile(r"^-- :: (.+)$", re.MULTILINE)
_SHOWN = 5
_TWICE = ("one claim settled twice", "succeeded twice")
_KINDS = ("queue", "processing", "delayed")

_UNFINISHED = """
select count(*) from task_executions
where finished_at is null and not (job = 'taskengine.notify-failure' and run_at > now() - interval '5 s')
"""
_NO_SCHEDULES = """
update task_job_definitions set is_enabled = false, updated_at = now() where schedule is not null
"""
_HOOKS = "select count(*) from webhook_events where processed_at is null and error is null"


class Judge:
    """Looks every few seconds, and once more when all is quiet."""

    def __init__(self, cluster: Cluster, ledger: Ledger, report: Report) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._report = report
        self._seen = 0
        self.begun = time.time()

    async def look(self) -> None:
        """What the triggers have seen since the last look."""
        c = await self._cluster.connect()
        try:
            await self._collect(c)
        finally:
            await c.close()

    async def _collect(self, c: Connection) -> None:
        rows = await c.fetch(
            "select id, kind, execution_id, detail, extract(epoch from at)::float8 as at "
            "from chaos.violations where id > $1 order by id limit 20",
            self._seen,
        )
        for row in rows:
            self._seen = row["id"]
            await self._add(c, row["kind"], row["execution_id"], row["detail"], row["at"])

    async def quiet(self, limit: float) -> float:
        """No schedule fires any more; wait until nothing is pending or running. Seconds it took."""
        begun = time.monotonic()
        c = await self._cluster.connect()
        await c.execute(_NO_SCHEDULES)
        await c.close()
        while time.monotonic() - begun < limit:
            c = await self._cluster.connect()
            try:
                if not await c.fetchval(_UNFINISHED) and not await c.fetchval(_HOOKS):
                    break
            finally:
                await c.close()
            await asyncio.sleep(0.5)
        return time.monotonic() - begun

    async def verdict(self) -> None:
        """Everything, at the end."""
        c = await self._cluster.connect()
        try:
            await self._collect(c)
            await self._read_journal(c)
            await self._ask(c)
            await self._events(c)
            for wrong in self._ledger.wrong:
                self._report.violations.append(Violation("what the client was told", wrong))
            await self._redis(c)
            await self._count(c)
        finally:
            await c.close()

    async def _read_journal(self, c: Connection) -> None:
        bodies, wrong = journal.read(self._cluster.folder / "journal")
        await c.copy_records_to_table("bodies", schema_name="chaos", records=bodies)
        await c.execute("analyze")
        for line in wrong:
            id_ = next((int(word) for word in line.split() if word.isdigit()), None)
            await self._add(c, "what the bodies wrote", id_, line)

    async def _ask(self, c: Connection) -> None:
        parts = _NAMED.split((Path(__file__).parent / "checks.sql").read_text())[1:]
        promised = list(self._ledger.promised)
        for name, statement in zip(parts[::2], parts[1::2], strict=True):
            rows = await c.fetch(statement, promised, timeout=120)
            for id_, detail in rows[:_SHOWN]:
                await self._add(c, name, id_, detail)
            if len(rows) > _SHOWN:
                await self._add(c, name, None, f"and {len(rows) - _SHOWN} more")

    async def _events(self, c: Connection) -> None:
        """What a sender was told is accepted is in the table."""
        rows = await c.fetch("select event_id from webhook_events")
        lost = self._ledger.events - {row["event_id"] for row in rows}
        for event_id in sorted(lost)[:_SHOWN]:
            await self._add(c, "a webhook lost", None, event_id)

    async def _redis(self, c: Connection) -> None:
        """No message of what has ended; those of a cancelled one go when their time comes."""
        end = time.monotonic() + 15
        while (left := await self._messages(c)) and time.monotonic() < end:
            await asyncio.sleep(0.5)
        for key, ids in left.items():
            await self._add(c, "a message of what has ended", ids[0], f"{key}: {ids[:10]}")

    async def _messages(self, c: Connection) -> dict[str, list[int]]:
        client: Redis = Redis(
            unix_socket_path=str(self._cluster.servers.valkey.socket), decode_responses=True
        )
        found: dict[str, list[int]] = {}
        try:
            for kind in _KINDS:
                for queue in self._cluster.config.engine.queues:
                    key = f"taskengine:{kind}:{queue}"
                    ids = [_id(str(m)) for m in await client.zrange(key, 0, -1)]
                    over = await c.fetch(
                        "select u.id from unnest($1::bigint[]) as u(id) where not exists "
                        "(select from task_executions e where e.id = u.id and e.finished_at is null)",
                        ids,
                    )
                    if over:
                        found[key] = [row["id"] for row in over]
        finally:
            await client.aclose()
        return found

    async def _count(self, c: Connection) -> None:
        figures = self._report.figures
        for name, table in {
            "executions": "inserted",
            "claims": "claims",
            "settled": "settled",
            "succeeded": "succeeded",
            "bodies begun": "bodies",
            "removed by retention": "deleted",
        }.items():
            figures[name] = await c.fetchval(f"select count(*) from chaos.{table}")
        kinds = [v.kind for v in self._report.violations]
        figures["lost"] = sum("lost" in kind for kind in kinds)
        figures["settled twice"] = sum(kind in _TWICE for kind in kinds)
        figures["stuck"] = sum("stuck" in kind for kind in kinds)
        moves = await c.fetch("select move, count(*) from chaos.history group by 1 order by 1")
        self._report.counts |= {f"moved: {move}": count for move, count in moves}

    async def _add(
        self, c: Connection, kind: str, id_: int | None, detail: str, at: float | None = None
    ) -> None:
        history = await history_of(c, id_) if id_ is not None else []
        faults = self._report.during(None if at is None else at - self.begun)
        self._report.violations.append(Violation(kind, detail, id_, history, faults))


def _id(member: str) -> int:
    """What is no id at all is nobody's."""
    return int(member) if member.removeprefix("-").isdigit() else 0
