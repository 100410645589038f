"""The ground that cases about processes stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from taskengine.lifecycle.parts import Parts
from tests.cases.support import Ground, case_registry


@pytest_asyncio.fixture
async def ground(parts: Parts, tmp_path: Path) -> AsyncIterator[Ground]:
    """The jobs of `case_jobs`, and daemons that run them."""
    for handle in case_registry():
        parts.registry.add(handle)
    ground = await Ground(parts, tmp_path).open()
    yield ground
    ground.end()
