"""Exclusive keys: many waiters, and two workers that run them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from taskengine.lifecycle.recover import bury
from taskengine.services.waker import Waker
from tests.support.exclusive import KEY, end, marked, send, sweep, three, turn
from tests.support.make import Hands, a_job, settled_by
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("two_jobs")


async def test_a_thousand_waiters_of_one_key_are_asked_for_once(hands: Hands) -> None:
    """Each is reserved and refused once; each end of a holder moves one message."""
    await send(hands)
    (holder,) = await turn(hands)
    await hands.sql(
        "insert into task_executions (job, queue, idempotency_key, exclusive_key) "
        "select 'work', 'default', 'w' || n, $1 from generate_series(1, 1000) n",
        KEY,
    )
    await sweep_of_all(hands)
    while await hands.redis("ZCARD", hands.parts.keys.queue("default")):
        assert await turn(hands, 500) == []
    assert len(await marked(hands)) == 1000
    keys = hands.parts.keys
    for _ in range(3):
        await end(hands, holder)
        waiting = [await hands.redis("ZCARD", key("default")) for key in (keys.queue, keys.delayed)]
        assert waiting == [1, 0]
        (holder,) = await turn(hands)


async def sweep_of_all(hands: Hands) -> None:
    await hands.sql("update task_executions set check_at = now() where state = 'pending'")
    await sweep(hands)


async def test_two_workers_run_a_key_one_after_another_in_order_beside_free_work(
    hands: Hands, second: Hands
) -> None:
    running, most, ran = 0, 0, list[int]()

    async def body(ctx: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        ran.append(ctx.execution_id)
        await asyncio.sleep(0.001)
        running -= 1

    await hands.know(a_job("pay", body))
    second.crew.acquirer.jobs = tuple(hands.parts.registry.names)
    ids = [(await hands.dispatch("pay", exclusive_key=KEY)).execution_id for _ in range(30)]
    free = [(await hands.dispatch()).execution_id for _ in range(30)]
    async with woken(hands), woken(second), hands.working(), second.working():
        async with asyncio.timeout(20):
            await settled_by(hands, "pay")
            await settled_by(hands, "work")
    assert most == 1
    assert ran == ids
    assert await states(hands, ids + free) == {"succeeded"}


@asynccontextmanager
async def woken(hands: Hands) -> AsyncIterator[None]:
    """With the wake subscription, as a daemon has it: else each next one waits for a poll."""
    waker = asyncio.create_task(Waker(hands.parts, hands.crew.work.set).run(lambda: None))
    try:
        yield
    finally:
        waker.cancel()
        with suppress(asyncio.CancelledError):
            await waker


async def states(hands: Hands, ids: Sequence[int]) -> set[str]:
    rows = await hands.sql("select distinct state from task_executions where id = any($1)", ids)
    return {row["state"] for row in rows}


async def test_a_worker_that_dies_with_a_key_gives_it_up_to_the_other_one(
    hands: Hands, second: Hands
) -> None:
    _, first, last = await three(hands)
    hands.die()
    await bury(second.parts, hands.worker_id, None, "second")
    async with second.working():
        await until(lambda: _ended(second, [first, last]))


async def _ended(hands: Hands, ids: Sequence[int]) -> bool:
    return await states(hands, ids) == {"succeeded"}
