"""The loop "divergence": compares Postgres with Redis per queue, rebuilds what lacks."""

from __future__ import annotations

import pytest

from taskengine.services import divergence as module
from taskengine.services.divergence import Divergence
from tests.support.make import Hands, Told, a_job


@pytest.fixture(autouse=True)
async def _work(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAIT", 0.0)
    await hands.know(a_job())


def divergence(hands: Hands) -> Divergence:
    return Divergence(hands.parts, hands.identity, hands.token)


async def lost(hands: Hands, count: int = 1) -> list[int]:
    """Rows old enough to be counted, without a message."""
    ids = [(await hands.insert(key=f"lost {n}")).id for n in range(count)]
    for each in ids:
        await hands.change(each, created_at="sql:now() - interval '16 s'")
    return ids


async def test_it_writes_a_queue_anew_that_lacks_messages(hands: Hands, told: Told) -> None:
    ids = await lost(hands, 3)
    loop = divergence(hands)
    await loop.tick()
    assert [await hands.at(each) for each in ids] == ["queue"] * 3
    assert loop.last_findings == {"lacking": 3}
    assert [e["count"] for e in told.of("delivery.diverged")] == [3]


async def test_it_leaves_alone_what_is_in_queue_processing_and_delayed(
    hands: Hands, told: Told
) -> None:
    await hands.dispatch()
    await hands.reserve()
    await hands.dispatch()
    await hands.dispatch(delay=3600.0)
    await hands.sql("update task_executions set created_at = now() - interval '1 h'")
    await divergence(hands).tick()
    assert told.of("delivery.diverged") == []


async def test_it_refuses_rows_in_flight(hands: Hands, told: Told) -> None:
    """Fresh ones whose push may be on its way, and those that a worker has just given back."""
    await hands.insert()
    (given_back,) = await lost(hands)
    await hands.change(given_back, claimed_at="sql:now()")
    await divergence(hands).tick()
    assert told.of("delivery.diverged") == []
    assert await hands.at(given_back) is None


async def test_it_refuses_marked_waiters(hands: Hands, told: Told) -> None:
    (waiter,) = await lost(hands)
    await hands.change(waiter, waits_for_key=True)
    await divergence(hands).tick()
    assert told.of("delivery.diverged") == []


async def test_it_believes_in_a_lack_only_when_it_has_seen_it_twice(
    hands: Hands, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = await lost(hands)
    loop = divergence(hands)
    compare = loop._compare

    async def settled_in_between() -> object:
        found = await compare()
        await hands.sql(
            "update task_executions set state = 'cancelled', finished_at = now() where id = $1", row
        )
        return found

    monkeypatch.setattr(loop, "_compare", settled_in_between)
    await loop.tick()
    assert told.of("delivery.diverged") == []


async def test_it_compares_only_under_the_lease_but_watches_the_epoch_always(
    hands: Hands, told: Told
) -> None:
    await divergence(Hands(hands.parts, "other")).tick()
    await lost(hands)
    loop = divergence(hands)
    await loop.tick()
    assert told.of("delivery.diverged") == []
    assert loop.last_findings == {"lease": "elsewhere", "remembered": True}
    assert loop.pause() == loop.interval
    await hands.redis("DEL", hands.parts.keys.epoch)
    await loop.tick()
    assert loop.last_findings == {"lease": "elsewhere", "remembered": False}
    assert loop.pause() < loop.interval  # it looks again soon: another daemon rebuilds


async def test_it_runs_at_once_on_a_bad_epoch_and_when_redis_is_back(hands: Hands) -> None:
    loop = divergence(hands)
    hands.parts.memory.suspect()
    assert loop._nudged.is_set()
