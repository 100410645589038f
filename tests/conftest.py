"""Real servers for the whole run, a fresh schema and a fresh prefix for each test."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from pydantic import SecretStr

from taskengine.config import Config
from taskengine.embedded import EmbeddedServers, Servers
from taskengine.lifecycle.parts import Parts, close_parts, open_parts
from taskengine.lifecycle.rebuild import remember
from taskengine.model.registry import Registry
from taskengine.runtime.clock import SystemClock
from taskengine.store import migrate

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def embedded() -> Iterator[EmbeddedServers]:
    """Postgres and Valkey of this run; tests that stop or restart them start their own."""
    folder = Path(tempfile.mkdtemp(prefix="taskengine-tests-"))
    embedded = EmbeddedServers(folder, durable=False)
    embedded.start()
    yield embedded
    embedded.stop()
    embedded.remove()


@pytest.fixture(scope="session")
def servers(embedded: EmbeddedServers) -> Servers:
    return embedded.start()


@pytest.fixture
def config(servers: Servers) -> Config:
    """A configuration of its own for each test: another schema, another prefix."""
    name = f"t{next(_numbers)}_{random.randrange(10**6)}"
    return Config.model_validate(
        {
            "postgres": {"dsn": SecretStr(servers.dsn), "schema": name},
            "redis": {"url": SecretStr(servers.redis_url), "prefix": name},
            "workers": {"slots": 20, "drain_timeout": 2.0},
            "heartbeat": {"beat": 0.2, "lease": 0.8},
            "web": {"port": 0},
        }
    )


@pytest.fixture
def registry() -> Registry:
    """The jobs of the test: add to it before the `parts` are used."""
    return Registry()


@pytest_asyncio.fixture
async def parts(config: Config, registry: Registry) -> AsyncIterator[Parts]:
    """Both stores, migrated and empty, with a sealed epoch."""
    await migrate.up(config.postgres)
    parts = await open_parts(config, registry, SystemClock(), random.Random(7), "taskengine-tests")
    await remember(parts)
    yield parts
    await _forget(parts)
    await close_parts(parts)


async def _forget(parts: Parts) -> None:
    """Drop the schema and the keys: a test that leaves either behind slows the others down."""
    settings = parts.config.postgres
    dsn = settings.dsn.get_secret_value() if settings.dsn else None
    c = await asyncpg.connect(dsn)
    try:
        await c.execute(f'drop schema if exists "{settings.schema_name}" cascade')
    finally:
        await c.close()
    keys = await parts.client.command("KEYS", f"{parts.keys.prefix}:*")
    if keys:
        await parts.client.command("DEL", *keys)
