"""Real servers for the whole run, a fresh schema and a fresh prefix for each test."""

from __future__ import annotations

import asyncio
import itertools
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
import uvloop
from pydantic import SecretStr

from taskengine.config import Config
from taskengine.embedded import EmbeddedServers, Servers
from taskengine.lifecycle.parts import Parts, close_parts, open_parts
from taskengine.lifecycle.rebuild import remember
from taskengine.model.registry import Registry
from taskengine.runtime.clock import SystemClock
from taskengine.store import migrate
from taskengine.telemetry.events import subscribe
from tests.support.make import Hands, Spare, Told

_numbers = itertools.count(1)

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
_LOOPS: Mapping[str, LoopFactory] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--loops",
        default="uvloop",
        help="event loops to run under: uvloop, asyncio, or both by comma",
    )


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, LoopFactory]:
    """The loops asked for; a test of a real daemon, which has its own, runs under the first one."""
    names = str(config.getoption("loops")).split(",")
    real = item.get_closest_marker("slow") or item.get_closest_marker("system")
    return {name: _LOOPS[name] for name in (names[:1] if real else names)}


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Postgres and Valkey of this run; tests that stop or restart them start their own."""
    folder = Path(tempfile.mkdtemp(prefix="taskengine-tests-"))
    embedded = EmbeddedServers(folder, durable=False)
    yield embedded.start()
    embedded.remove()
    folder.rmdir()


@pytest.fixture(scope="session")
def spare() -> Iterator[Spare]:
    """A second pair. A module that breaks it overrides `servers` by it; a test mends what it broke."""
    folder = Path(tempfile.mkdtemp(prefix="taskengine-tests-"))
    embedded = EmbeddedServers(folder, durable=False)
    yield Spare(embedded, embedded.start())
    embedded.remove()
    folder.rmdir()


@pytest.fixture
def config(servers: Servers, tmp_path: Path) -> Config:
    """A configuration of its own for each test: another schema, another prefix."""
    name = f"t{next(_numbers)}_{random.randrange(10**6)}"
    return Config.model_validate(
        {
            "postgres": {"dsn": SecretStr(servers.dsn), "schema": name},
            "redis": {"url": SecretStr(servers.redis_url), "prefix": name},
            "workers": {"slots": 20, "drain_timeout": 2.0, "lock_dir": tmp_path / "locks"},
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
    try:
        await _forget(parts)
    finally:
        await close_parts(parts)


@pytest_asyncio.fixture
async def hands(parts: Parts) -> AsyncIterator[Hands]:
    """A daemon of this test, its verbs done by hand; it has joined and knows no job yet."""
    hands = await Hands(parts).join()
    yield hands
    hands.die()


@pytest.fixture
def told() -> Iterator[Told]:
    """The events that are told from here on."""
    told = Told()
    end = subscribe(told)
    yield told
    end()


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
