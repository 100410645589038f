"""Stores' own databases: small pools of their own, never the engine's."""

from __future__ import annotations

import asyncio

import asyncpg

_POOL = 4
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 2.0

StoreConnection = asyncpg.pool.PoolConnectionProxy


class Databases:
    """One pool a DSN, opened when first asked for."""

    def __init__(self) -> None:
        self._pools: dict[str, asyncpg.Pool[asyncpg.Record]] = {}
        self._opening = asyncio.Lock()

    async def acquire(self, dsn: str) -> StoreConnection[asyncpg.Record]:
        """A connection; the caller gives it back with `release`."""
        async with self._opening:
            if dsn not in self._pools:
                self._pools[dsn] = await asyncpg.create_pool(
                    dsn, min_size=0, init_size=0, max_size=_POOL, timeout=_CONNECT_SECONDS
                )
        return await self._pools[dsn].acquire(timeout=_CONNECT_SECONDS)

    async def release(self, dsn: str, connection: StoreConnection[asyncpg.Record]) -> None:
        await self._pools[dsn].release(connection)

    async def close(self) -> None:
        """Close within bounds: a connection still in use is terminated."""
        for pool in self._pools.values():
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await pool.close()
            except TimeoutError:
                pool.terminate()
