"""Exclusive keys: every move out of running wakes the next, and nobody is forgotten."""

from __future__ import annotations

import pytest

from taskengine.lifecycle.operate import cancel, redrive
from taskengine.lifecycle.recover import bury, take_late
from taskengine.model.outcome import Outcome
from taskengine.store import executions, queues
from tests.support.exclusive import end, marked, send, three, turn
from tests.support.make import (
    CANCELLED,
    DISCARDED,
    FAILED,
    INTERRUPTED,
    RELEASED,
    SNOOZED,
    SUCCEEDED,
    Hands,
    lose_first_reply,
)

pytestmark = pytest.mark.usefixtures("two_jobs")


@pytest.mark.parametrize(
    "outcome",
    [SUCCEEDED, FAILED, DISCARDED, SNOOZED, RELEASED, CANCELLED, INTERRUPTED],
    ids=lambda outcome: outcome.ending.value,
)
async def test_every_move_out_of_running_wakes_the_next(hands: Hands, outcome: Outcome) -> None:
    holder, first, second = await three(hands)
    await end(hands, holder, outcome)
    assert await hands.at(first) == "queue"
    assert await hands.at(second) is None
    claims = await turn(hands)
    assert [c.id for c in claims] == [first]
    assert first not in await marked(hands)


async def test_a_settlement_repeated_after_a_lost_reply_wakes_the_next(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, first, _ = await three(hands)
    lose_first_reply(monkeypatch, hands.parts.store)
    await end(hands, holder)
    assert await hands.at(first) == "queue"


async def test_unkeyed_settlements_ask_nobody_whose_turn_is_next(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("asked")

    claim = await hands.running()
    monkeypatch.setattr(executions, "next_of_keys", never)
    await end(hands, claim)
    assert await hands.state(claim.id) == "succeeded"


async def test_a_holder_whose_worker_died_is_followed_by_the_next(
    hands: Hands, second: Hands
) -> None:
    _, first, _ = await three(hands)
    assert await bury(second.parts, hands.worker_id, None, "second") == 1
    assert await hands.at(first) == "queue"
    assert [c.id for c in await turn(second)] == [first]


async def test_a_holder_over_time_is_followed_by_the_next(hands: Hands) -> None:
    holder, first, _ = await three(hands)
    await hands.change(holder.id, deadline_at="sql:now() - interval '1 d'")
    assert await take_late(hands.parts, "hands") == 1
    assert await hands.at(first) == "queue"


async def test_a_stray_holder_released_by_the_beat_is_followed_by_the_next(hands: Hands) -> None:
    _, first, _ = await three(hands)
    await hands.beat()
    await hands.beat()
    assert await hands.at(first) == "queue"
    assert [c.id for c in await turn(hands)] == [first]


async def test_one_that_cannot_be_claimed_is_followed_by_the_next(hands: Hands) -> None:
    first, second = await send(hands), await send(hands)
    await hands.sql(
        "create function refuse() returns trigger language plpgsql as "
        f"$$begin if new.id = {first} and new.state = 'running' then raise 'no'; end if; "
        "return new; end$$"
    )
    await hands.sql(
        "create trigger refuse before update on task_executions "
        "for each row execute function refuse()"
    )
    assert await turn(hands) == []
    assert await hands.state(first) == "failed"
    assert [c.id for c in await turn(hands)] == [second]


async def test_a_waiter_that_is_cancelled_and_the_pushed_next_too(hands: Hands) -> None:
    holder, first, second = await three(hands)
    await cancel(hands.parts, [first], "me", "no")
    await end(hands, holder)
    assert await hands.at(second) == "queue"
    third = await send(hands)
    await hands.redis("ZREM", hands.parts.keys.queue("default"), third)
    await cancel(hands.parts, [second], "me", "no")  # it was pushed: its turn goes on to the third
    assert await hands.at(third) == "queue"
    assert [c.id for c in await turn(hands)] == [third]


async def test_a_redriven_one_waits_for_its_key_like_any_other(hands: Hands) -> None:
    failed = await send(hands)
    (claim,) = await turn(hands)
    await end(hands, claim, DISCARDED)
    holder, first, _ = await three(hands)
    await redrive(hands.parts, failed, "me", from_start=False)
    assert await turn(hands) == []
    assert failed in await marked(hands)
    await end(hands, holder)
    assert [c.id for c in await turn(hands)] == [first]


async def test_one_that_will_be_retried_lets_the_next_go_first(hands: Hands) -> None:
    holder, first, _ = await three(hands)
    await end(hands, holder, FAILED)
    assert await hands.at(holder.id) == "delayed"
    assert [c.id for c in await turn(hands)] == [first]


async def test_a_waiter_not_due_is_passed_over_and_comes_by_itself(hands: Hands) -> None:
    await send(hands)
    (holder,) = await turn(hands)
    later = await send(hands, delay=3600.0)
    await end(hands, holder)
    assert await hands.at(later) == "delayed"


async def test_each_queue_has_its_own_next(hands: Hands) -> None:
    """So that a queue nobody polls, or a paused one, holds up none of the others."""
    holder, first, _ = await three(hands)
    high = await send(hands, queue="high")
    assert await turn(hands) == []
    await end(hands, holder)
    assert [await hands.at(each) for each in (first, high)] == ["queue", "queue"]


async def test_a_waiter_in_a_paused_queue_holds_up_nobody_and_runs_when_it_is_resumed(
    hands: Hands,
) -> None:
    holder, first, _ = await three(hands)
    high = await send(hands, queue="high")
    assert await turn(hands) == []
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "default", "me", "a bank holiday")
    await end(hands, holder)
    (next_,) = await turn(hands)
    assert next_.id == high
    await end(hands, next_)
    async with hands.parts.store.connection() as c:
        await queues.resume(c, "default")
    hands.crew.acquirer.paused.clear()
    assert [c.id for c in await turn(hands)] == [first]
