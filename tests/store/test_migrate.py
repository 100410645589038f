"""Numbered migrations: checksums, two at once, behind and ahead, and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from pydantic import SecretStr

from taskengine.config import Config, Postgres
from taskengine.errors import MigrationError, StoreUnavailable
from taskengine.store import migrate
from taskengine.store.migrate import Migration

OURS = migrate.migrations()
NEXT = Migration(
    len(OURS) + 1, "more", "create table more (n integer); insert into more values (1)"
)


@pytest_asyncio.fixture
async def postgres(config: Config) -> AsyncIterator[Postgres]:
    """A schema that does not exist yet."""
    yield config.postgres
    await ask(config.postgres, f'drop schema if exists "{config.postgres.schema_name}" cascade')


@pytest.fixture
def bring(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have this version of the engine bring these files."""

    def bring(*files: Migration) -> None:
        monkeypatch.setattr(migrate, "migrations", lambda: list(files))

    return bring


async def ask(postgres: Postgres, statement: str) -> list[Any]:
    assert postgres.dsn is not None
    c = await asyncpg.connect(
        postgres.dsn.get_secret_value(), server_settings={"search_path": postgres.schema_name}
    )
    try:
        return [tuple(row.values()) for row in await c.fetch(statement)]
    finally:
        await c.close()


def test_the_files_are_numbered_without_a_gap() -> None:
    assert [each.version for each in OURS] == list(range(1, len(OURS) + 1))
    assert all(each.name for each in OURS)


async def test_up_makes_the_schema_and_a_second_time_does_nothing(postgres: Postgres) -> None:
    assert await migrate.up(postgres) == OURS
    assert await migrate.up(postgres) == []
    await migrate.check(postgres)
    status = await migrate.status(postgres)
    assert (status.pending, status.changed) == ((), ())
    assert status.applied == tuple(each.version for each in OURS)
    rows = await ask(postgres, "select version, name, checksum from schema_migrations order by 1")
    assert rows == [(each.version, each.name, each.checksum) for each in OURS]


async def test_status_and_check_change_nothing(postgres: Postgres) -> None:
    status = await migrate.status(postgres)
    assert (status.applied, status.pending) == ((), tuple(OURS))
    with pytest.raises(MigrationError, match="taskengine migrate up"):
        await migrate.check(postgres)
    assert await ask(postgres, "select to_regnamespace(current_setting('search_path'))") == [
        (None,)
    ]


async def test_two_at_once_migrate_once(postgres: Postgres) -> None:
    answers = await asyncio.gather(*(migrate.up(postgres) for _ in range(4)))
    assert sorted(len(answer) for answer in answers) == [0, 0, 0, len(OURS)]
    await migrate.check(postgres)


async def test_a_database_behind_is_refused_and_brought_up(postgres: Postgres, bring: Any) -> None:
    await migrate.up(postgres)
    bring(*OURS, NEXT)
    with pytest.raises(MigrationError, match=f"{NEXT.version:04d}_more"):
        await migrate.check(postgres)
    assert await migrate.up(postgres) == [NEXT]
    assert await ask(postgres, "select n from more") == [(1,)]


async def test_a_database_ahead_is_accepted(postgres: Postgres, bring: Any) -> None:
    """A rolling deploy: the newer daemon has migrated, the older one goes on."""
    bring(*OURS, NEXT)
    await migrate.up(postgres)
    bring(*OURS)
    await migrate.check(postgres)
    assert await migrate.up(postgres) == []


async def test_a_file_changed_after_it_was_applied_is_found(postgres: Postgres, bring: Any) -> None:
    await migrate.up(postgres)
    first = OURS[0]
    bring(Migration(first.version, first.name, first.text + "\n-- changed"), *OURS[1:], NEXT)
    for attempt in (migrate.check, migrate.up):
        with pytest.raises(MigrationError, match=f"0001_{first.name}"):
            await attempt(postgres)
    assert (await migrate.status(postgres)).changed == (f"0001_{first.name}",)
    assert await ask(postgres, "select to_regclass('more')") == [(None,)]


async def test_one_that_fails_leaves_nothing_behind_and_names_itself(
    postgres: Postgres, bring: Any
) -> None:
    broken = Migration(NEXT.version, "broken", "create table more (n integer); select 1 / 0")
    bring(*OURS, broken)
    with pytest.raises(MigrationError, match=r"0\d+_broken failed: division by zero"):
        await migrate.up(postgres)
    status = await migrate.status(postgres)
    assert status.applied == tuple(each.version for each in OURS)
    assert await ask(postgres, "select to_regclass('more')") == [(None,)]
    bring(*OURS, NEXT)  # the lock is free again
    assert await migrate.up(postgres) == [NEXT]


async def test_one_without_a_transaction_runs_outside_of_it(postgres: Postgres, bring: Any) -> None:
    alone = Migration(
        NEXT.version,
        "index",
        "-- no-transaction\ncreate index concurrently more on task_executions (created_at)",
    )
    bring(*OURS, alone)
    await migrate.up(postgres)
    assert await ask(postgres, "select to_regclass('more') is not null") == [(True,)]


async def test_two_schemas_do_not_see_each_other(postgres: Postgres) -> None:
    other = postgres.model_copy(update={"schema_name": f"{postgres.schema_name}_other"})
    try:
        await migrate.up(postgres)
        assert await migrate.up(other) == OURS
    finally:
        await ask(postgres, f'drop schema "{other.schema_name}" cascade')


async def test_postgres_away_is_said_so_without_the_dsn(postgres: Postgres) -> None:
    away = postgres.model_copy(
        update={"dsn": SecretStr("postgresql://u:secret@/x?host=/nowhere-at-all")}
    )
    with pytest.raises(StoreUnavailable) as caught:
        await migrate.up(away)
    assert "secret" not in str(caught.value)
