"""A system that is well, for the doctor to look at."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from taskengine.insight import divergence
from taskengine.lifecycle.parts import Parts
from tests.insight.doctor_ward import Ward


@pytest.fixture
async def ward(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ward]:
    monkeypatch.setattr(divergence, "WAIT", 0.1)
    ward = Ward(parts)
    await ward.join()
    await ward.well()
    yield ward
    ward.die()
