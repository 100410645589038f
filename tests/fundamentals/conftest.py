"""What every page of the tutorial stands on: a daemon that runs, three stores, a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from taskengine import TaskEngine, __version__
from taskengine.app.build import Daemon, build
from taskengine.jobs.notify_failure import NotifyFailure
from taskengine.lifecycle.definitions import sync
from taskengine.lifecycle.parts import Parts
from taskengine.model.registry import Registry
from taskengine.runtime.systemd import Notifier
from taskengine.store import stores
from taskengine.telemetry.metrics import Metrics

STORES = ("0101", "0102", "0103")


@pytest.fixture
def registry(request: pytest.FixtureRequest) -> Registry:
    """The jobs of the test's own module, as `[jobs] modules` would name it."""
    registry = Registry()
    registry.add_module(request.module)
    return registry


@pytest_asyncio.fixture
async def engine(parts: Parts) -> AsyncIterator[TaskEngine]:
    """A client, while a daemon with all its services runs in this process."""
    parts.registry.add(NotifyFailure(parts))
    await sync(parts)
    async with parts.store.connection() as c:
        for number in STORES:
            await stores.add(c, number, f"Store {number}", "UTC", None)
    async with running_daemon(parts):
        yield TaskEngine.of(parts)


@asynccontextmanager
async def running_daemon(parts: Parts) -> AsyncIterator[None]:
    """A daemon, from its start to its orderly end."""
    daemon = _daemon(parts)
    stop = asyncio.Event()
    running = asyncio.create_task(daemon.supervisor().run(stop))
    try:
        yield
    finally:
        stop.set()
        await running
        await daemon.databases.close()


def _daemon(parts: Parts) -> Daemon:
    metrics = Metrics(
        version=__version__,
        queues=parts.config.engine.queues,
        sources=(),
        now=lambda: parts.clock.now().timestamp(),
    )
    return build(parts, metrics, Notifier.from_env())
