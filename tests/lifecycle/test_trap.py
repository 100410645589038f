"""The trap: the push fails after the insert, and the same key is dispatched again.

An engine that answers "there already" without pushing reports success over work that is in no
queue, for good (I5, "No silent no-op"). Here the work runs, once, wherever the dispatch broke off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from taskengine.errors import BrokerUnavailable, StoreUnavailable
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.dispatch import Dispatcher
from taskengine.services.deliveries import Deliveries
from taskengine.store import executions
from taskengine.store.execution_rows import NewExecution
from tests.support.make import Hands, a_job, settled_by

KEY = "webhook-recovery:77"


class Ran(list[int]):
    """The executions whose body has run."""


@pytest.fixture
async def ran(hands: Hands) -> Ran:
    ran = Ran()

    async def body(ctx: Any) -> None:
        ran.append(ctx.execution_id)

    await hands.know(a_job("work", body))
    return ran


async def work_off(hands: Hands) -> None:
    async with hands.working():
        await settled_by(hands, "work")


async def rows(hands: Hands) -> int:
    return len(await hands.sql("select from task_executions"))


async def test_trap_the_push_fails_and_the_same_key_is_dispatched_again(
    hands: Hands, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_: Any) -> int:
        raise BrokerUnavailable("the network has gone")

    with monkeypatch.context() as broken:
        broken.setattr(hands.parts.queues, "push", away)
        first = await hands.dispatch(key=KEY)
    assert (first.created, first.delivered) == (True, False)
    assert await hands.at(first.execution_id) is None

    second = await hands.dispatch(key=KEY)
    assert (second.created, second.delivered, second.state) == (False, True, "pending")
    assert second.execution_id == first.execution_id
    await work_off(hands)
    assert ran == [first.execution_id]
    assert await rows(hands) == 1


async def test_trap_killed_before_the_insert_nothing_is_half_written(
    hands: Hands, ran: Ran
) -> None:
    """The transaction of the insert never committed."""

    async def insert_and_die() -> None:
        row = NewExecution("work", KEY, None, None, "{}", None, 0.0, False, None)
        async with hands.parts.store.transaction() as c:
            await executions.insert(c, [row], hands.parts.queues.names, 15.0)
            raise ConnectionResetError

    with pytest.raises(StoreUnavailable):
        await insert_and_die()
    assert await rows(hands) == 0
    again = await hands.dispatch(key=KEY)
    assert again.created
    await work_off(hands)
    assert ran == [again.execution_id]


async def test_trap_killed_between_insert_and_push_and_dispatched_again(
    hands: Hands, ran: Ran
) -> None:
    made = await hands.insert(key=KEY)
    again = await hands.dispatch(key=KEY)
    assert (again.execution_id, again.created, again.delivered) == (made.id, False, True)
    await work_off(hands)
    assert ran == [made.id]


async def test_trap_killed_between_insert_and_push_and_never_dispatched_again(
    hands: Hands, ran: Ran
) -> None:
    """Nobody repeats: the sweep delivers."""
    made = await hands.insert(key=KEY)
    await hands.change(made.id, check_at="sql:now()")
    await Deliveries(hands.parts, hands.identity, hands.token).tick()
    await work_off(hands)
    assert ran == [made.id]


async def test_trap_killed_between_push_and_the_answer(hands: Hands, ran: Ran) -> None:
    made = await hands.insert(key=KEY)
    await deliver(hands.parts, [made])
    again = await hands.dispatch(key=KEY)
    assert (again.execution_id, again.delivered) == (made.id, True)
    assert await hands.redis("ZCARD", hands.parts.keys.queue("default")) == 1
    await work_off(hands)
    assert ran == [made.id]


async def test_trap_killed_between_push_and_the_end_of_the_run(hands: Hands, ran: Ran) -> None:
    """The key is dispatched again while its execution runs, and when it has ended."""
    claim = await hands.running(key=KEY)
    while_running = await hands.dispatch(key=KEY)
    assert (while_running.state, while_running.delivered) == ("running", False)
    await hands.settle(claim)
    afterwards = await hands.dispatch(key=KEY)
    assert (afterwards.execution_id, afterwards.state) == (claim.id, "succeeded")
    assert await hands.at(claim.id) is None


async def test_trap_the_inserts_reply_is_lost(
    hands: Hands, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dispatch itself repeats, with the key that it had before the insert."""
    replies = iter([True])
    insert = executions.insert

    async def loses_its_first_reply(*args: Any) -> Any:
        made = await insert(*args)
        if next(replies, False):
            raise ConnectionResetError
        return made

    monkeypatch.setattr(executions, "insert", loses_its_first_reply)
    sent = await hands.dispatch()  # no key given: one was drawn
    assert sent.delivered
    await work_off(hands)
    assert ran == [sent.execution_id]
    assert await rows(hands) == 1


async def test_trap_the_pushs_reply_is_lost(
    hands: Hands, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = hands.parts.queues.push

    async def loses_its_reply(deliveries: Sequence[Any]) -> int:
        await push(deliveries)
        raise BrokerUnavailable("timed out")

    with monkeypatch.context() as broken:
        broken.setattr(hands.parts.queues, "push", loses_its_reply)
        sent = await hands.dispatch(key=KEY)
    assert not sent.delivered  # as far as anybody knows
    await hands.dispatch(key=KEY)
    await work_off(hands)
    assert ran == [sent.execution_id]


async def test_trap_the_answer_is_lost_on_its_way_to_the_caller(hands: Hands, ran: Ran) -> None:
    """The caller gives up in the middle; its batch goes on without it."""
    asking = asyncio.create_task(hands.dispatch(key=KEY))
    await asyncio.sleep(0)
    asking.cancel()
    again = await hands.dispatch(key=KEY)
    await work_off(hands)
    assert ran == [again.execution_id]
    assert await rows(hands) == 1


async def test_trap_many_dispatchers_of_one_key_at_once(hands: Hands, ran: Ran) -> None:
    dispatchers = [Dispatcher(hands.parts) for _ in range(5)]
    await hands.insert(key=KEY)
    for each in dispatchers:
        hands.dispatcher = each
        await asyncio.gather(*(hands.dispatch(key=KEY) for _ in range(10)))
    await work_off(hands)
    assert len(ran) == 1
