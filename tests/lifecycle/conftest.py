"""Two jobs, and a second daemon that knows them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from taskengine.lifecycle.parts import Parts
from tests.support.make import Hands, a_job


@pytest.fixture
async def two_jobs(hands: Hands) -> None:
    """`work`, tried again after a minute, and `other`."""
    await hands.know(a_job("work", retry_backoff=60), a_job("other"))


@pytest_asyncio.fixture
async def second(parts: Parts) -> AsyncIterator[Hands]:
    """Another daemon that knows the same jobs."""
    second = Hands(parts, "second")
    second.crew.acquirer.jobs = tuple(parts.registry.names)
    yield await second.join()
    second.die()
