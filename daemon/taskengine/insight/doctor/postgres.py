"""Postgres: whether it keeps what it commits, has room left, and is talked to as it must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taskengine.config import Config
from taskengine.insight.doctor.finding import Finding, finding
from taskengine.insight.words import span
from taskengine.lifecycle.parts import Parts
from taskengine.store import doctor, migrate, workers
from taskengine.store.doctor import Server, Table
from taskengine.store.migrate import Status

_OLDEST_VERSION = 140000
_OWN_CONNECTIONS = 1  # the heartbeat's; the others of a daemon are its pool's
_USED = 0.8
_DEAD = 20_000
_DEAD_RATIO = 0.2  # autovacuum comes at 0.02
_VACUUMED = 600.0  # under full load there are as many dead rows as live ones before it comes
_XID_FACTOR = 2  # times autovacuum_freeze_max_age


async def schema(parts: Parts) -> list[Finding]:
    """Whether the database is the one that this version works with."""
    return list(judge_schema(await migrate.status(parts.config.postgres)))


def judge_schema(found: Status) -> Iterator[Finding]:
    if found.pending:
        names = ", ".join(f"{each.version:04d}_{each.name}" for each in found.pending)
        yield finding("migrations.pending", f"migrations are pending: {names}")
    if found.changed:
        names = ", ".join(found.changed)
        yield finding(
            "migrations.changed",
            f"files of migrations were changed after they were applied: {names}",
        )


async def server(parts: Parts) -> list[Finding]:
    """The server's settings, its connections, the age of its transaction ids."""
    async with parts.store.connection() as c:
        found = await doctor.server(c)
    return [*judge_promises(found), *judge_age(found)]


def judge_promises(found: Server) -> Iterator[Finding]:
    """What must hold for "committed" to mean "kept"."""
    if found.version_number < _OLDEST_VERSION:
        version = found.version_number // 10_000
        yield finding("postgres.version", f"PostgreSQL {version} is too old: 14 is the oldest")
    if found.in_recovery or found.read_only:
        why = "is a standby" if found.in_recovery else "makes transactions read-only"
        yield finding("postgres.read_only", f"Postgres {why}: nothing can be claimed or settled")
    for name, is_safe in (
        ("fsync", found.fsync),
        ("full_page_writes", found.full_page_writes),
        ("synchronous_commit", found.synchronous_commit != "off"),
    ):
        if not is_safe:
            yield finding(
                f"postgres.{name}",
                f"{name} is off: a crash of the server may lose what it has committed, and no "
                "promise of the engine's holds then",
            )
    if found.replicas_async and not found.replicas_sync:
        yield finding(
            "postgres.async_replicas",
            f"{found.replicas_async} replicas follow asynchronously: a failover to one loses the "
            "last commits",
        )


def judge_age(found: Server) -> Iterator[Finding]:
    if not found.autovacuum:
        yield finding("postgres.autovacuum", "autovacuum is off: every table grows and slows down")
    if found.xid_age > _XID_FACTOR * found.xid_limit:
        yield finding(
            "postgres.xid_age",
            f"the oldest transaction id is {found.xid_age:,} old: autovacuum does not keep up, and "
            "at 2,000,000,000 the server stops taking writes",
        )


async def connections(parts: Parts) -> list[Finding]:
    """Whether the daemons' pools fit."""
    async with parts.store.connection() as c:
        found = await doctor.server(c)
        daemons = len(await workers.living(c))
    return list(judge_connections(found, daemons, parts.config))


def judge_connections(found: Server, daemons: int, config: Config) -> Iterator[Finding]:
    most = found.connections_most - found.connections_reserved
    wanted = daemons * (config.postgres.pool_max + _OWN_CONNECTIONS)
    if wanted > most:
        yield finding(
            "postgres.connections",
            f"{daemons} daemons with [postgres] pool_max = {config.postgres.pool_max} may want "
            f"{wanted} connections, and Postgres has {most}",
        )
    elif found.connections_used > _USED * most:
        yield finding(
            "postgres.connections",
            f"{found.connections_used} of the {most} connections of Postgres are in use",
        )


async def pooler(parts: Parts) -> list[Finding]:
    """Named statements get lost behind a pooler that pools transactions."""
    if not parts.config.postgres.statement_cache or not await doctor.shares_backends(parts.store):
        return []
    return [
        finding(
            "postgres.pooler",
            "a pooler stands before Postgres that pools transactions: set [postgres] "
            "statement_cache = false, or name Postgres itself",
        )
    ]


async def bloat(parts: Parts) -> list[Finding]:
    """Dead rows in the engine's tables."""
    async with parts.store.connection() as c:
        return list(judge_tables(await doctor.tables(c), parts.config.postgres.schema_name))


def judge_tables(tables: Sequence[Table], schema_name: str) -> Iterator[Finding]:
    for each in tables:
        name = f"{schema_name}.{each.name}"
        if each.switched_off:
            text = f"autovacuum is switched off for {name}: it grows and slows down"
            yield finding("postgres.autovacuum", text, each.name)
        many = each.dead > _DEAD and each.dead > _DEAD_RATIO * (each.live + each.dead)
        if many and each.vacuumed > _VACUUMED:
            since = span(each.vacuumed)
            text = (
                f"{each.dead:,} dead rows beside {each.live:,} in {name}, not vacuumed for {since}"
            )
            yield finding("postgres.bloat", text, each.name)
