"""Numbered migrations under one advisory lock, each in a transaction, each with its checksum.

Guarantees: two daemons that start at once migrate once; a file changed after it was applied is
found; a database that is one version ahead (a rolling deploy) is accepted, one that is behind is
not. `-- no-transaction` on a file's first line runs it outside a transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files

import asyncpg

from taskengine import __version__
from taskengine.config import Postgres
from taskengine.errors import MigrationError, StoreUnavailable
from taskengine.store.pool import connect_options

_LOCK = 0x7461736B656E67  # "taskeng": one lock for whoever migrates this engine
_TABLE = """
create table if not exists schema_migrations (
  version integer primary key, name text not null, checksum text not null,
  applied_at timestamptz not null default now(), engine_version text not null)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: `0001_engine.sql`."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Status:
    """Where a database stands: applied versions, those to come, and what does not fit."""

    applied: tuple[int, ...]
    pending: tuple[Migration, ...]
    changed: tuple[str, ...]


def migrations() -> list[Migration]:
    """All that this version of the engine brings, in order."""
    folder = files("taskengine.store") / "migrations"
    found = [
        Migration(int(f.name[:4]), f.name.removesuffix(".sql")[5:], f.read_text("utf-8"))
        for f in folder.iterdir()
        if f.name.endswith(".sql")
    ]
    return sorted(found, key=lambda m: m.version)


async def status(settings: Postgres) -> Status:
    """Compare the database with this version's files; changes nothing."""
    async with _connection(settings) as c:
        return await _status(c)


async def up(settings: Postgres) -> list[Migration]:
    """Apply what is pending; what was applied. Waits for whoever is migrating already."""
    async with _connection(settings) as c:
        await c.execute("select pg_advisory_lock($1)", _LOCK)
        try:
            await c.execute(f'create schema if not exists "{settings.schema_name}"')
            await c.execute(_TABLE)
            return await _apply(c, await _status(c))
        finally:
            await c.execute("select pg_advisory_unlock($1)", _LOCK)


async def check(settings: Postgres) -> None:
    """`MigrationError` unless the schema is what this version needs."""
    found = await status(settings)
    if found.changed:
        raise MigrationError(
            f"applied migrations differ from their files: {', '.join(found.changed)}"
        )
    if found.pending:
        names = ", ".join(f"{m.version:04d}_{m.name}" for m in found.pending)
        raise MigrationError(f"pending migrations: {names}; run `taskengine migrate up`")


async def _apply(c: asyncpg.Connection[asyncpg.Record], found: Status) -> list[Migration]:
    if found.changed:
        raise MigrationError(
            f"applied migrations differ from their files: {', '.join(found.changed)}"
        )
    for migration in found.pending:
        if migration.text.startswith("-- no-transaction"):
            await _apply_one(c, migration)
        else:
            async with c.transaction():
                await _apply_one(c, migration)
    return list(found.pending)


async def _apply_one(c: asyncpg.Connection[asyncpg.Record], migration: Migration) -> None:
    try:
        await c.execute(migration.text)
    except asyncpg.PostgresError as error:
        name = f"{migration.version:04d}_{migration.name}"
        raise MigrationError(f"migration {name} failed: {error}") from error
    await c.execute(
        "insert into schema_migrations (version, name, checksum, engine_version) values ($1, $2, $3, $4)",
        migration.version,
        migration.name,
        migration.checksum,
        __version__,
    )


async def _status(c: asyncpg.Connection[asyncpg.Record]) -> Status:
    applied: dict[int, str] = {}
    if await c.fetchval("select to_regclass('schema_migrations') is not null"):
        rows = await c.fetch("select version, checksum from schema_migrations order by version")
        applied = {r["version"]: r["checksum"] for r in rows}
    known = migrations()
    changed = tuple(
        f"{m.version:04d}_{m.name}"
        for m in known
        if m.version in applied and applied[m.version] != m.checksum
    )
    pending = tuple(m for m in known if m.version not in applied)
    return Status(tuple(applied), pending, changed)


@asynccontextmanager
async def _connection(
    settings: Postgres,
) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of its own: the advisory lock is the session's."""
    dsn = settings.dsn.get_secret_value() if settings.dsn else None
    try:
        c = await asyncpg.connect(
            dsn, timeout=10, command_timeout=None, **connect_options(settings, "taskengine-migrate")
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StoreUnavailable(f"Postgres cannot serve: {type(error).__name__}: {error}") from error
    try:
        yield c
    finally:
        await c.close(timeout=5)
