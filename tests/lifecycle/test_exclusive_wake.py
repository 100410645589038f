"""Exclusive keys: the wake that is lost, or comes too early."""

from __future__ import annotations

from typing import Any

import pytest

from taskengine.errors import BrokerUnavailable
from taskengine.model.execution import Claim
from taskengine.services.divergence import Divergence
from taskengine.store import executions
from tests.support.exclusive import end, marked, send, sweep, three, turn
from tests.support.make import Hands, Told

pytestmark = pytest.mark.usefixtures("two_jobs")


async def test_a_lost_wake_is_made_up_for_by_the_sweep(hands: Hands, told: Told) -> None:
    holder, first, second = await three(hands)
    await hands.settle(holder)  # and it dies before the push
    await sweep(hands)
    assert [await hands.at(each) for each in (first, second)] == ["queue", None]
    assert told.of("execution.woken_late") == [{"count": 1}]


async def test_the_sweep_leaves_waiters_alone_whose_key_is_held(hands: Hands) -> None:
    _, first, second = await three(hands)
    for each in (first, second):
        await hands.change(each, check_at="sql:now()")
    await sweep(hands)
    assert [await hands.at(each) for each in (first, second)] == [None, None]


async def test_the_sweep_goes_through_all_keys_a_batch_after_another(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskengine.services.deliveries._BATCH", 2)
    for n in range(5):
        made = await hands.insert(key=f"k{n}", exclusive=f"key:{n}")
        await hands.change(made.id, waits_for_key=True)
    await sweep(hands)
    assert len(await turn(hands)) == 5


async def test_with_redis_away_at_the_end_the_next_is_found_by_the_sweep(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> int:
        raise BrokerUnavailable("away")

    holder, first, _ = await three(hands)
    with monkeypatch.context() as patch:
        patch.setattr(hands.parts.queues, "push", away)
        await end(hands, holder)
    assert await hands.at(first) is None
    await sweep(hands)
    assert await hands.at(first) == "queue"


async def test_divergence_does_not_count_or_push_marked_waiters(hands: Hands) -> None:
    _, first, second = await three(hands)
    await hands.sql("update task_executions set created_at = now() - interval '1 h'")
    divergence = Divergence(hands.parts, hands.identity, hands.token)
    await divergence.tick()
    await divergence.tick()
    assert [await hands.at(each) for each in (first, second)] == [None, None]


async def refused(hands: Hands) -> tuple[Claim, int, Any]:
    """The key is held, and a waiter was refused: what is left is to put it away."""
    await send(hands)
    (holder,) = await turn(hands)
    waiter = await send(hands)
    reserved = await hands.reserve()
    assert await hands.crew.acquirer.claim(reserved, hands.worker_id) == []
    return holder, waiter, reserved


async def test_race_settled_and_woken_before_the_mark(hands: Hands) -> None:
    holder, waiter, reserved = await refused(hands)
    await end(hands, holder)
    await hands.crew.acquirer.put_away(reserved, [])
    assert await hands.at(waiter) == "queue"
    assert await marked(hands) == []
    assert [c.id for c in await turn(hands)] == [waiter]


async def test_race_settled_before_the_mark_and_died_before_the_wake(hands: Hands) -> None:
    holder, waiter, reserved = await refused(hands)
    await hands.settle(holder)
    await hands.crew.acquirer.put_away(reserved, [])
    assert await hands.at(waiter) == "queue"
    assert [c.id for c in await turn(hands)] == [waiter]


async def test_race_marked_before_the_settlement_and_acknowledged_after_the_wake(
    hands: Hands,
) -> None:
    """The push puts it into the queue, the acknowledgement takes it out of processing."""
    holder, waiter, reserved = await refused(hands)
    async with hands.parts.store.connection() as c:
        (mark,) = await executions.mark_waiting(c, [waiter], ["work"])
    assert (mark.taken, mark.marked) == (True, True)
    await end(hands, holder)
    await hands.parts.queues.ack(reserved)
    assert await hands.at(waiter) == "queue"
    assert [c.id for c in await turn(hands)] == [waiter]


async def test_a_waiter_behind_a_lock_is_put_off_and_not_asked_for_again_and_again(
    hands: Hands,
) -> None:
    holder, waiter, reserved = await refused(hands)
    async with hands.parts.store.transaction() as c:
        await c.execute("select from task_executions where id = $1 for update", waiter)
        await hands.crew.acquirer.put_away(reserved, [])
        assert await hands.at(waiter) == "delayed"
    assert await marked(hands) == []
    await end(hands, holder)
    assert [c.id for c in await turn(hands)] == [waiter]
