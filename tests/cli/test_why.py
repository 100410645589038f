"""`taskengine why ID`: what people read, what machines read, the exit status."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from taskengine.lifecycle.parts import Parts
from tests.cli.conftest import Cli
from tests.insight.doctor_ward import OLD, Ward
from tests.support.make import FAILED

_FACTS = [
    *("at", "job", "queue", "store", "attempt", "max_attempts", "orphanings", "interruptions"),
    *("run_at", "due_in_seconds", "check_at", "worker", "claimed_at", "deadline_at", "finished_at"),
    *("redis", "before_it", "waiting", "served_first", "per_minute", "eta_seconds", "paused_by"),
    *("paused_at", "exclusive_key", "key_holder", "able_daemons"),
]


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
    assert "attempt 1 on hands: failed after" in failed
    assert failed.endswith("ValueError: no")
    assert (result.status, result.err) == (0, "")


async def test_the_object_is_stable(ward: Ward, cli: Cli) -> None:
    made = await ward.old(run_at=OLD)
    told = (await cli("why", made, "--json")).object
    assert list(told) == ["id", "state", "code", "headline", "also", "steps", "history", "facts"]
    assert (told["id"], told["code"]) == (made, "pending.lost")
    assert list(told["facts"]) == _FACTS
    assert (told["facts"]["before_it"], told["facts"]["waiting"]) == (None, 0)
    assert told["steps"] == ["taskengine rebuild-delivery --queue default"]


async def test_text_of_users_cannot_steer_the_terminal(ward: Ward, cli: Cli) -> None:
    sent = await ward.dispatch(key="k\x1b[2J\r\nforged")
    await ward.running(key="other")
    nasty = FAILED._replace(error="\x1b]0;owned\x07 password=hunter2\nsecond")
    await ward.settle(await ward.take_again(sent.execution_id), nasty)
    for more in ((), ("--json",)):
        said = (await cli("why", sent.execution_id, *more)).out
        assert not set(said) & set("\x1b\x07\r")
        assert "hunter2" not in said
        assert not [line for line in said.splitlines() if line.startswith("forged")]


async def test_an_unknown_one_is_3(ward: Ward, cli: Cli) -> None:
    result = await cli("why", "999999999")
    assert result.status == 3
    assert "999999999" in result.err
