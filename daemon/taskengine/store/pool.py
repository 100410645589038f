"""The engine's one Postgres pool, and the one place where asyncpg's errors become ours.

Guarantees: waiting for a connection has an end; a server that is away or read-only is
`StoreUnavailable` and its connections are dropped, so that the next call looks for the new primary;
nothing of a DSN is in an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self, TypeAlias

import asyncpg
from asyncpg import exceptions as pg

from taskengine.config import Postgres
from taskengine.errors import (
    DataRejected,
    DuplicateKey,
    MigrationError,
    StoreBusy,
    StoreUnavailable,
    TaskEngineError,
)

Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)

_ACQUIRE_SECONDS = 5.0
_CLOSE_SECONDS = 3.0

_BUSY = (
    pg.LockNotAvailableError,
    pg.DeadlockDetectedError,
    pg.SerializationError,
    pg.QueryCanceledError,
    pg.InvalidCachedStatementError,
)
_REJECTED = (
    pg.DataError,
    pg.IntegrityConstraintViolationError,
    pg.ProgramLimitExceededError,
    pg.RaiseError,  # a trigger of the user's own
    pg.DataCorruptedError,
    pg.IndexCorruptedError,
    ValueError,  # asyncpg refuses to encode an argument
)
_UNMIGRATED = (pg.UndefinedTableError, pg.UndefinedColumnError, pg.InvalidSchemaNameError)
_AWAY = (OSError, asyncpg.InterfaceError, asyncpg.PostgresError, asyncpg.InternalClientError)


def translate(error: Exception) -> TaskEngineError | None:
    """The engine's error for a driver's one; None where it is none of the driver's.

    What is not known to be the caller's or the data's fault counts as "away": it is repeated, and
    a repeat is always safe.
    """
    name = type(error).__name__
    if isinstance(error, TaskEngineError):
        return None
    if isinstance(error, pg.UniqueViolationError):
        return DuplicateKey(f"{name}: {error.constraint_name}")
    if isinstance(error, _REJECTED):
        return DataRejected(f"{name}: {error}")
    if isinstance(error, _BUSY):
        return StoreBusy(f"{name}: {error}")
    if isinstance(error, _UNMIGRATED):
        return MigrationError(f"{error}: run `taskengine migrate up`")
    if isinstance(error, _AWAY):
        return StoreUnavailable(f"Postgres cannot serve: {name}: {error}")
    return None


class Store:
    """The pool. Store functions take one of its connections first."""

    def __init__(self, settings: Postgres, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self.settings = settings
        self._pool = pool

    @classmethod
    async def open(cls, settings: Postgres, application: str = "taskengine") -> Self:
        """A pool that connects when first asked: Postgres may be away now."""
        pool = asyncpg.create_pool(
            settings.dsn.get_secret_value() if settings.dsn else None,
            min_size=0,
            init_size=0,
            max_size=settings.pool_max,
            command_timeout=settings.command_timeout,
            timeout=_ACQUIRE_SECONDS,
            reset=_keep,
            **connect_options(settings, application),
        )
        return cls(settings, await pool)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection in autocommit, for single statements."""
        try:
            async with self._pool.acquire(timeout=_ACQUIRE_SECONDS) as c:
                yield c
        except Exception as error:
            raise await self._ours(error) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection in a transaction: the only way to join several statements in one."""
        async with self.connection() as c, c.transaction():
            yield c

    async def _ours(self, error: Exception) -> Exception:
        """The error to raise; a server that turned read-only loses all of its connections."""
        if isinstance(error, pg.ReadOnlySQLTransactionError):
            await self._pool.expire_connections()
        return translate(error) or error

    def usage(self) -> tuple[int, int, int]:
        """Connections (open, idle, at most)."""
        pool = self._pool
        return pool.get_size(), pool.get_idle_size(), pool.get_max_size()

    async def close(self) -> None:
        """Close, within bounds: a connection still in use is terminated."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()


@asynccontextmanager
async def savepoint(c: Connection) -> AsyncIterator[None]:
    """A part of a transaction: what is refused in it undoes nothing else."""
    try:
        async with c.transaction():
            yield
    except Exception as error:
        raise translate(error) or error from error


@asynccontextmanager
async def attempt(c: Connection) -> AsyncIterator[None]:
    """A statement whose refusal is for the caller to split, in autocommit as in a transaction.

    Only what is about rows is translated here; an absent server is the connection's to tell.
    """
    try:
        if c.is_in_transaction():
            async with c.transaction():
                yield
        else:
            yield
    except Exception as error:
        ours = translate(error)
        if isinstance(ours, DataRejected | StoreBusy):
            raise ours from error
        raise


def connect_options(settings: Postgres, application: str) -> dict[str, Any]:
    """What every connection of the engine has in common, pooled or not."""
    return {
        "statement_cache_size": 1024 if settings.statement_cache else 0,
        "max_cached_statement_lifetime": 0,
        "server_settings": {
            "application_name": application,
            "search_path": settings.schema_name,
            "jit": "off",
            "random_page_cost": "1.1",  # batches by primary key, never a walk over the table
            "idle_in_transaction_session_timeout": "60s",
        },
    }


async def _keep(_connection: object) -> None:
    """No session state is ever changed, so nothing needs to be reset: it would cost a round trip."""
