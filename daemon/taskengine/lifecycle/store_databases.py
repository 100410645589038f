"""`store_db()`: a store's own database in a job, `async with` in coroutines, `with` in threads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any

from taskengine.errors import NoStoreDatabase
from taskengine.lifecycle.parts import Parts
from taskengine.model.surroundings import OpensDatabase, StoreDatabase
from taskengine.store import stores
from taskengine.store.databases import Databases, StoreConnection

Carry = Callable[[Coroutine[Any, Any, Any]], Any]


class StoreDatabases:
    """Looks a store's DSN up and hands out connections to it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._databases = Databases()

    async def acquire(self, type_num: str | None) -> tuple[str, StoreConnection[Any]]:
        """(DSN, connection); `NoStoreDatabase` in a global job or without a DSN."""
        if type_num is None:
            raise NoStoreDatabase(
                "store_db() in a global job: scope = 'per_store' gives it a store"
            )
        async with self._parts.store.connection() as c:
            dsn = await stores.dsn(c, type_num)
        if dsn is None:
            raise NoStoreDatabase(
                f"store {type_num!r} has no DSN: `taskengine stores add {type_num} --dsn …`"
            )
        return dsn, await self._databases.acquire(dsn)

    async def release(self, dsn: str, connection: StoreConnection[Any]) -> None:
        await self._databases.release(dsn, connection)

    async def close(self) -> None:
        await self._databases.close()


class StoreSession(OpensDatabase):
    """One connection to a store's database, for the length of a `with`."""

    def __init__(self, databases: StoreDatabases, type_num: str | None, carry: Carry) -> None:
        self._databases = databases
        self._type_num = type_num
        self._carry = carry
        self._held: tuple[str, StoreConnection[Any]] | None = None

    async def __aenter__(self) -> StoreDatabase:
        self._held = await self._databases.acquire(self._type_num)
        return self._held[1]

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            await self._databases.release(*held)

    def __enter__(self) -> StoreDatabase:
        self._carry(self.__aenter__())
        assert self._held is not None  # noqa: S101  __aenter__ has set it
        return Blocking(self._held[1], self._carry)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._carry(self.__aexit__(kind, error, tb))


class Blocking:
    """asyncpg's verbs for a thread: each is carried to the loop and waited for."""

    def __init__(self, connection: StoreConnection[Any], carry: Carry) -> None:
        self._connection = connection
        self._carry = carry

    def execute(self, query: str, *args: object) -> Any:
        return self._carry(self._connection.execute(query, *args))

    def fetch(self, query: str, *args: object) -> Any:
        return self._carry(self._connection.fetch(query, *args))

    def fetchrow(self, query: str, *args: object) -> Any:
        return self._carry(self._connection.fetchrow(query, *args))

    def fetchval(self, query: str, *args: object) -> Any:
        return self._carry(self._connection.fetchval(query, *args))

    def transaction(self) -> BlockingTransaction:
        return BlockingTransaction(self._connection, self._carry)


class BlockingTransaction:
    """`with db.transaction():` in a thread."""

    def __init__(self, connection: StoreConnection[Any], carry: Carry) -> None:
        self._transaction = connection.transaction()
        self._carry = carry

    def __enter__(self) -> None:
        self._carry(self._transaction.__aenter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._carry(self._transaction.__aexit__(kind, error, tb))
