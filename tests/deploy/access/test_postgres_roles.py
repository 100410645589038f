"""Each role of `deploy/postgres/` can do its work, and not another's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import asyncpg
import pytest

from tests.deploy.access.guarded import DISPATCH, OWNER, READONLY, RUNTIME, Guarded
from tests.support.until import until

pytestmark = pytest.mark.slow

SOON = 30.0
JOBS = {"guarded-plain", "guarded-flaky", "guarded-sleepy", "guarded-tick"}


@pytest.fixture(scope="module")
def works(guarded: Guarded) -> Iterator[Guarded]:
    """A daemon under the runtime role."""
    with guarded.daemon(RUNTIME):
        yield guarded


async def ended(site: Guarded, execution: int) -> str:
    async def found() -> str | None:
        rows = await site.sql(
            READONLY,
            f"select state from task_executions where id = {execution} and finished_at is not null",
        )
        return rows[0]["state"] if rows else None

    return str(await until(found, SOON))


async def dispatched(site: Guarded, role: str, *words: str) -> int:
    async def known() -> bool:
        return bool(await site.sql(READONLY, "select from task_job_definitions limit 1"))

    await until(known, SOON)
    told = await asyncio.to_thread(site.say, role, "dispatch", *words, "--json")
    return int(json.loads(told)["execution_id"])


async def test_a_daemon_does_all_its_work_under_runtime(works: Guarded) -> None:
    made = [
        await dispatched(works, RUNTIME, name)
        for name in ("guarded-plain", "guarded-flaky", "guarded-sleepy", "guarded-bad")
    ]
    states = [await ended(works, each) for each in made]
    assert states == ["succeeded", "succeeded", "succeeded", "failed"]

    async def fired() -> bool:
        rows = await works.sql(
            READONLY,
            "select from task_executions where job = 'guarded-tick' and state = 'succeeded'",
        )
        return len(rows) >= 2

    await until(fired, SOON)
    for words in (
        ("queues", "pause", "low", "--reason", "a test"),
        ("queues", "resume", "low"),
        ("stores", "add", "0123", "--name", "Lisbon"),
        ("stores", "list"),
        ("executions", "redrive", str(made[3])),
        ("jobs", "set", "guarded-bad", "timeout=60"),
        ("doctor", "--fix"),
    ):
        done = await asyncio.to_thread(works.run, RUNTIME, *words)
        assert "ermission" not in done.stderr, (words, done.stderr)
    refused = [line for line in works.logged("warning", "error") if "ermission" in str(line)]
    assert refused == []


async def test_a_program_dispatches_under_dispatch_only(works: Guarded) -> None:
    words = ("guarded-plain", "--payload", '{"number": 7}', "--key", "seven")
    made = await dispatched(works, DISPATCH, *words)
    assert await ended(works, made) == "succeeded"
    assert await dispatched(works, DISPATCH, *words) == made
    assert await dispatched(works, DISPATCH, *words[:-1], "eight", "--wait", "20") != made
    shown = await asyncio.to_thread(works.say, DISPATCH, "executions", "show", str(made), "--json")
    assert json.loads(shown)["state"] == "succeeded"


async def test_an_operator_looks_under_read_only(works: Guarded) -> None:
    made = await dispatched(works, RUNTIME, "guarded-bad")
    await ended(works, made)
    for words in (
        ("status",),
        ("why", str(made)),
        ("executions", "list", "--state", "failed"),
        ("executions", "show", str(made)),
        ("jobs", "list"),
        ("queues", "list"),
        ("schedules", "list"),
        ("webhooks", "list"),
        ("migrate", "check"),
    ):
        done = await asyncio.to_thread(works.run, READONLY, *words)
        assert "ermission" not in done.stderr, (words, done.stderr)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    looked = await asyncio.to_thread(works.run, READONLY, "doctor", "--json")
    codes = {each["code"] for each in json.loads(looked.stdout)["findings"]}
    assert "postgres.read_only" not in codes  # of the role, that is: the server takes writes


_TABLES = [
    *("stores", "task_attempts", "task_engine", "task_execution_logs", "task_executions"),
    *("task_job_definitions", "task_leases", "task_queues", "task_schedule_misses"),
    *("task_workers", "webhook_events", "schema_migrations"),
]
_FORGED = (
    "insert into task_executions (job, queue, idempotency_key, state)"
    " values ('a', 'high', 'k', 'succeeded')"
)
_REFUSED = [
    *((READONLY, f"delete from {table}") for table in _TABLES),
    *((DISPATCH, f"delete from {table}") for table in _TABLES),
    *((role, f"truncate {table}") for role in (RUNTIME, DISPATCH) for table in _TABLES),
    *((role, "create table mine (n int)") for role in (RUNTIME, DISPATCH, READONLY)),
    *((role, "create schema mine") for role in (RUNTIME, DISPATCH, READONLY)),
    *((role, "create table public.mine (n int)") for role in (OWNER, RUNTIME, DISPATCH)),
    *((role, "create temporary table mine (n int)") for role in (RUNTIME, DISPATCH, READONLY)),
    *((role, "select dsn from stores") for role in (DISPATCH, READONLY)),
    (RUNTIME, "drop table task_queues"),
    (RUNTIME, "alter table task_executions disable trigger all"),
    (RUNTIME, "delete from schema_migrations"),
    (RUNTIME, "delete from task_engine"),
    (DISPATCH, "update task_executions set state = 'cancelled'"),
    (DISPATCH, _FORGED),
    (DISPATCH, "update task_job_definitions set is_enabled = false"),
    (DISPATCH, "select * from webhook_events"),
    (READONLY, "insert into task_queues (name) values ('a')"),
    (READONLY, "set default_transaction_read_only = off; update task_queues set name = 'a'"),
    (OWNER, "create role mine"),
    (OWNER, "create database mine"),
]  # fmt: skip


@pytest.mark.parametrize(("role", "statement"), _REFUSED, ids=lambda each: each[:60])
async def test_what_is_anothers_work_is_refused(
    guarded: Guarded, role: str, statement: str
) -> None:
    c = await asyncpg.connect(
        guarded.dsn(role),
        server_settings={"search_path": "taskengine", "default_transaction_read_only": "off"},
    )
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await c.execute(statement)
    finally:
        await c.close()


async def test_every_table_is_in_the_list_above(guarded: Guarded) -> None:
    rows = await guarded.sql(
        OWNER, "select tablename from pg_tables where schemaname = 'taskengine'"
    )
    assert {row["tablename"] for row in rows} == set(_TABLES)


async def test_what_a_later_migration_makes_is_the_daemons_at_once(guarded: Guarded) -> None:
    await guarded.sql(OWNER, "create table later (n int)")
    try:
        await guarded.sql(RUNTIME, "insert into later values (1)")
        assert len(await guarded.sql(RUNTIME, "select * from later")) == 1
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await guarded.sql(DISPATCH, "select * from later")
    finally:
        await guarded.sql(OWNER, "drop table later")


async def test_others_do_not_get_in(guarded: Guarded) -> None:
    await guarded.sql("taskengine", "create role stranger login")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await guarded.sql("stranger", "select 1")
