"""Connections that are reset the moment they are made: as a proxy, or a dying server, does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from pydantic import SecretStr

from taskengine.broker.client import Client
from taskengine.broker.wake import Wake
from taskengine.config import Postgres, Redis
from taskengine.errors import BrokerUnavailable, StoreUnavailable
from taskengine.runtime.clock import SystemClock
from taskengine.store.pool import Store

_TRIES = 60


@pytest_asyncio.fixture
async def resetting() -> AsyncIterator[int]:
    """The port of a server that resets what connects: some at once, some a moment later."""
    count = 0

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        for _each in range(count % 6):
            await asyncio.sleep(0)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_a_redis_that_resets_is_away(resetting: int) -> None:
    url = SecretStr(f"redis://127.0.0.1:{resetting}/0")
    client = Client(Redis(url=url, breaker=0.0), SystemClock())
    for _ in range(_TRIES):
        with pytest.raises(BrokerUnavailable):
            await client.command("PING")
    await client.close()


async def test_a_wake_up_that_is_reset_is_away(resetting: int) -> None:
    wake = Wake(Redis(url=SecretStr(f"redis://127.0.0.1:{resetting}/0")), "channel")
    for _ in range(_TRIES):
        with pytest.raises(BrokerUnavailable):
            await wake.listen(lambda _queue: None)


async def test_a_postgres_that_resets_is_away(resetting: int) -> None:
    dsn = SecretStr(f"postgresql://nobody@127.0.0.1:{resetting}/none?sslmode=disable")
    store = await Store.open(Postgres(dsn=dsn))
    for _ in range(_TRIES):
        with pytest.raises(StoreUnavailable):
            async with store.connection() as c:
                await c.fetch("select 1")
    await store.close()
