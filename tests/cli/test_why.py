"""`taskengine why ID`: what people read, what machines read, the exit status."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from taskengine.lifecycle.parts import Parts
from tests.cli.conftest import Cli
from tests.insight.doctor_ward import Ward
from tests.support.make import FAILED


@pytest.fixture
async def ward(parts: Parts) -> AsyncIterator[Ward]:
    ward = Ward(parts)
    await ward.join()
    await ward.well()
    await ward.beat_on()
    yield ward
    ward.die()


async def test_a_headline_and_what_happened(ward: Ward, cli: Cli) -> None:
    claim = await ward.running(key="paystub:7")
    await ward.deliver(await ward.settle(claim, FAILED))
    result = await cli("why", str(claim.id))
    first, dispatched, failed = result.out.splitlines()
    assert first.startswith(f"{claim.id} work (attempt 2 of 3) is waiting for its retry, due in ")
    assert dispatched.endswith("dispatched, key paystub:7")
    assert "attempt 1 on hands: failed, to be tried again after" in failed
    assert failed.endswith("ValueError: no")
    assert (result.status, result.err) == (0, "")


async def test_the_object_is_stable(ward: Ward, cli: Cli) -> None:
    made = await ward.insert()
    told = (await cli("why", str(made.id), "--json")).object
    assert list(told) == ["id", "state", "code", "headline", "also", "steps", "history"]
    assert (told["id"], told["code"]) == (made.id, "pending.lost")
    assert told["steps"] == ["taskengine rebuild-delivery --queue default"]


async def test_an_unknown_one_is_3(ward: Ward, cli: Cli) -> None:
    result = await cli("why", "999999999")
    assert result.status == 3
    assert "999999999" in result.err
