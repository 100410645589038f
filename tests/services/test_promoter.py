"""The loop "promoter": delayed → queue, when the next one is due and at most 1 s late."""

from __future__ import annotations

import asyncio

import pytest

from taskengine.services.promoter import Promoter
from tests.support.make import Hands, a_job


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job(), a_job("urgent", queue="high"))


async def test_it_promotes_what_is_due_of_every_queue_and_refuses_the_rest(hands: Hands) -> None:
    soon = [
        (await hands.dispatch(delay=60.0)).execution_id,
        (await hands.dispatch("urgent", delay=50.0)).execution_id,
    ]
    later = (await hands.dispatch(delay=600.0)).execution_id
    promoter = Promoter(hands.parts, hands.identity)
    await promoter.tick()
    assert [await hands.at(each) for each in soon] == ["delayed"] * 2
    hands.identity.offset += 61
    await promoter.tick()
    assert [await hands.at(each) for each in (*soon, later)] == ["queue", "queue", "delayed"]
    assert promoter.last_findings == {"promoted": 2}


async def test_it_waits_until_the_next_one_is_due_and_at_most_a_second(hands: Hands) -> None:
    promoter = Promoter(hands.parts, hands.identity)
    await promoter.tick()
    assert promoter.pause() == promoter.interval == 1.0
    await hands.dispatch(delay=600.0)
    await promoter.tick()
    assert promoter.pause() == 1.0
    hands.identity.offset += 599.5
    await promoter.tick()
    assert promoter.pause() < 0.6
    hands.identity.offset += 1
    assert 0 < promoter.pause() < 0.1  # already due: at once, and yet no busy loop


async def test_it_goes_by_the_databases_clock_and_not_by_the_machines(hands: Hands) -> None:
    """A database 10 minutes ahead: what is due there is due."""
    sent = await hands.dispatch(delay=590.0)
    hands.identity.offset += 600
    await Promoter(hands.parts, hands.identity).tick()
    assert await hands.at(sent.execution_id) == "queue"


async def test_more_than_a_batch_is_promoted_turn_after_turn(hands: Hands) -> None:
    key = hands.parts.keys.delayed("default")
    await hands.redis("ZADD", key, *(word for n in range(1, 1501) for word in (1, n)))
    promoter = Promoter(hands.parts, hands.identity)
    assert await promoter.tick()
    assert not await promoter.tick()
    assert await hands.redis("ZCARD", hands.parts.keys.queue("default")) == 1500


async def test_two_daemons_promote_each_entry_once(hands: Hands) -> None:
    key = hands.parts.keys.delayed("default")
    await hands.redis("ZADD", key, *(word for n in range(1, 1001) for word in (1, n)))
    promoters = [Promoter(hands.parts, hands.identity) for _ in range(3)]
    await asyncio.gather(*(each.tick() for each in promoters))
    assert sum(each.last_findings["promoted"] for each in promoters) == 1000


async def test_promoted_too_early_is_corrected_by_the_claim(hands: Hands) -> None:
    """A clock that is wrong costs a round trip and no early run."""
    sent = await hands.dispatch(delay=600.0)
    hands.identity.offset += 3600
    await Promoter(hands.parts, hands.identity).tick()
    reserved = await hands.reserve()
    claims = await hands.crew.acquirer.claim(reserved, hands.worker_id)
    await hands.crew.acquirer.put_away(reserved, claims)
    assert claims == []
    assert await hands.at(sent.execution_id) == "delayed"
