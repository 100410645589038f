"""Planted: a server, a pooler, a clock, a table that is not as it must be; and how quick it looks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from pydantic import SecretStr

from taskengine.config import Config
from taskengine.embedded import Servers
from taskengine.errors import StoreUnavailable
from taskengine.insight.doctor import daemons, postgres, surroundings
from taskengine.insight.doctor.examination import examine
from taskengine.runtime.clock import SystemClock
from taskengine.store.doctor import Lapsed, Server, Table
from taskengine.store.pool import Store
from tests.insight.doctor_ward import OF_THE_SERVERS, Ward
from tests.support.pooler import Pooler

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
SERVER = Server(
    *(180000, NOW, False, False, "on", True, True, True, 200, 3, 10, 50_000_000, 200_000_000, 0, "")
)


def codes(found: object) -> list[str]:
    return [each.code for each in found]  # type: ignore[attr-defined]


# ---- by itself -----------------------------------------------------------------------------------


def test_a_server_that_keeps_what_it_commits() -> None:
    assert codes(postgres.judge_promises(SERVER)) == []
    assert codes(postgres.judge_age(SERVER)) == []
    assert codes(postgres.judge_connections(SERVER, 3, Config())) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"version_number": 130012}, "postgres.version"),
        ({"in_recovery": True}, "postgres.read_only"),
        ({"read_only": True}, "postgres.read_only"),
        ({"fsync": False}, "postgres.fsync"),
        ({"full_page_writes": False}, "postgres.full_page_writes"),
        ({"synchronous_commit": "off"}, "postgres.synchronous_commit"),
        ({"replicas_async": 1}, "postgres.async_replicas"),
    ],
)
def test_a_server_that_may_lose_what_it_committed(changes: dict[str, object], code: str) -> None:
    assert codes(postgres.judge_promises(SERVER._replace(**changes))) == [code]  # type: ignore[arg-type]


def test_a_server_whose_ids_run_out_or_that_never_cleans_up() -> None:
    old = SERVER._replace(xid_age=500_000_000, autovacuum=False)
    assert codes(postgres.judge_age(old)) == ["postgres.autovacuum", "postgres.xid_age"]


@pytest.mark.parametrize(
    ("used", "daemons_", "words"),
    [(190, 1, "190 of the 197 connections"), (10, 18, "may want 198 connections")],
)
def test_connections_that_run_out(used: int, daemons_: int, words: str) -> None:
    server = SERVER._replace(connections_used=used)
    (found,) = postgres.judge_connections(server, daemons_, Config())
    assert words in found.text


def test_tables_full_of_dead_rows() -> None:
    full = Table("task_executions", 300_000, 150_000, 3600.0, False)
    found = list(postgres.judge_tables([full], "taskengine"))
    assert codes(found) == ["postgres.bloat"]
    assert "not vacuumed for 1 h 0 min" in found[0].text
    for well in (
        full._replace(live=10_000_000),
        full._replace(dead=9000),
        full._replace(vacuumed=60),
    ):
        assert codes(postgres.judge_tables([well], "taskengine")) == []


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"used_memory": 95, "maxmemory": 100}, ["redis.memory"]),
        ({"used_memory": 95, "maxmemory": 0}, []),
        ({"role": "slave"}, ["redis.replica"]),
        ({"rdb_last_bgsave_status": "err"}, ["redis.bgsave"]),
        ({}, []),
    ],
)
def test_what_redis_says_of_itself(told: dict[str, object], expected: list[str]) -> None:
    assert codes(surroundings.judge_redis(told)) == expected


def test_how_sure_a_clock_is_depends_on_how_long_asking_took() -> None:
    assert codes(surroundings.judge_clock("Redis", 8.0, 0.1)) == ["clock.skew"]
    assert codes(surroundings.judge_clock("Redis", -8.0, 0.1)) == ["clock.skew"]
    assert codes(surroundings.judge_clock("Redis", 8.0, 4.0)) == []


def test_leases_of_loops_that_are_not_built_are_not_missed() -> None:
    config = Config.model_validate({"redis": {"enabled": False}})
    lapsed = [Lapsed("deliveries", "x", 9e9), Lapsed("over_time", "x", 9e9)]
    found = list(daemons.judge_leases(lapsed, daemons.intervals(config)))
    assert [each.about for each in found] == ["over_time"]


# ---- planted -------------------------------------------------------------------------------------


async def test_a_setting_of_the_server_is_seen(ward: Ward) -> None:
    """Those of the tests' own server: it is thrown away, and may lose what it commits."""
    await ward.beat_on()
    assert set(codes(await examine(ward.parts))) == OF_THE_SERVERS


async def test_a_read_only_database(ward: Ward) -> None:
    async def read_only(on: str) -> None:
        async with ward.parts.store.connection() as c:
            await c.execute(f"set default_transaction_read_only = {on}")

    await ward.beat_on()
    await read_only("on")
    try:
        assert "postgres.read_only" in codes(await examine(ward.parts))
    finally:
        await read_only("off")


async def test_a_table_without_autovacuum_fills_with_dead_rows(ward: Ward) -> None:
    await ward.sql("alter table task_attempts set (autovacuum_enabled = false)")
    await ward.dispatch()
    await ward.sql(
        "insert into task_attempts (execution_id, attempt, fence, move, reason, by)"
        " select (select min(id) from task_executions), 1, 1, 'retried', '', ''"
        " from generate_series(1, 21000)"
    )
    await ward.sql("delete from task_attempts")
    await ward.sql("update schema_migrations set applied_at = now() - interval '1 h'")
    await ward.sql("select pg_stat_force_next_flush()")
    found = await ward.found()
    assert codes(found) == ["postgres.autovacuum", "postgres.bloat"]
    assert {each.about for each in found} == {"task_attempts"}


async def test_a_clock_that_is_wrong(ward: Ward) -> None:
    class Ahead(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(minutes=1)

    ward.parts = replace(ward.parts, clock=Ahead())
    found = await ward.found()
    assert [(each.code, each.about) for each in found] == [
        ("clock.skew", "Postgres"),
        ("clock.skew", "Redis"),
    ]
    assert "60 s ahead of that of Postgres" in found[0].text


async def test_pools_that_want_more_than_there_is(ward: Ward) -> None:
    settings = ward.parts.config.postgres.model_copy(update={"pool_max": 400})
    config = ward.parts.config.model_copy(update={"postgres": settings})
    ward.parts = replace(ward.parts, config=config)
    assert "may want 401 connections" in (await ward.only("postgres.connections")).text


async def test_pending_migrations_and_nothing_else_is_asked(ward: Ward) -> None:
    await ward.sql("delete from schema_migrations")
    assert (await ward.codes())[0] == "migrations.pending"
    assert await ward.codes() == ["migrations.pending"]


async def test_a_migration_that_was_changed(ward: Ward) -> None:
    await ward.sql("update schema_migrations set checksum = 'x'")
    assert await ward.codes() == ["migrations.changed"]


async def test_a_pooler_that_pools_transactions(
    ward: Ward, servers: Servers, config: Config
) -> None:
    """Only where named statements are used; a plain connection is never mistaken for it."""
    assert await postgres.pooler(ward.parts) == []
    folder = parse_qs(urlsplit(servers.dsn).query)["host"][0]
    async with Pooler(Path(folder) / ".s.PGSQL.5432").running() as pooler:
        dsn = SecretStr(f"postgresql://taskengine@127.0.0.1:{pooler.port}/taskengine")
        settings = config.postgres.model_copy(update={"dsn": dsn, "statement_cache": False})
        store = await Store.open(settings)
        try:
            plain = replace(ward.parts, store=store)
            assert codes(await postgres.pooler(plain)) == ["postgres.pooler"]
            told = config.model_copy(update={"postgres": settings})
            assert await postgres.pooler(replace(plain, config=told)) == []
        finally:
            await store.close()


async def test_postgres_away_is_raised(ward: Ward) -> None:
    away = ward.parts.config.postgres.model_copy(
        update={"dsn": SecretStr("postgresql://127.0.0.1:1/x")}
    )
    config = ward.parts.config.model_copy(update={"postgres": away})
    store = await Store.open(away)
    with pytest.raises(StoreUnavailable):
        await examine(replace(ward.parts, config=config, store=store))
    await store.close()


async def test_a_check_that_fails_hides_nothing(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def denied(*args: object) -> object:
        raise asyncpg.InsufficientPrivilegeError("permission denied, password=hunter2")

    monkeypatch.setattr("taskengine.store.doctor.tables", denied)
    await ward.old()
    found = {each.code: each for each in await ward.found()}
    assert list(found) == ["delivery.pending_without_message", "doctor.blind"]
    assert found["doctor.blind"].about == "postgres.bloat"
    assert "hunter2" not in found["doctor.blind"].text
