"""The loop "workers": slots, priority, wake-up, and what is not for this daemon."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from taskengine.broker.wake import publish
from taskengine.config.sections import Queue
from taskengine.lifecycle.fetch import Fetcher
from taskengine.lifecycle.parts import Parts
from taskengine.services.promoter import Promoter
from taskengine.services.waker import Waker
from taskengine.store import queues
from tests.support.make import Hands, a_job, settled_by
from tests.support.until import until


def configured(parts: Parts, **sections: Any) -> Parts:
    """The same parts under another configuration."""
    return replace(parts, config=parts.config.model_copy(update=sections))


class Gate:
    """Bodies that run until they are let go; who runs, and who has begun in which order."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.began: list[str] = []
        self.most = self.now = 0

    async def body(self, ctx: Any) -> None:
        self.began.append(ctx.queue)
        self.now += 1
        self.most = max(self.most, self.now)
        await self.open.wait()
        self.now -= 1


async def test_slots_are_filled_and_never_overfilled(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        gate.now += 1
        gate.most = max(gate.most, gate.now)
        await asyncio.sleep(0.01)
        gate.now -= 1

    gate = Gate()
    await hands.know(a_job("work", body))
    for _ in range(70):
        await hands.dispatch()
    async with hands.working():
        await settled_by(hands, "work")
    assert gate.most == hands.crew.slots == 20


async def test_priority_is_strict_by_the_order_of_the_queues(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        began.append(ctx.queue)

    began: list[str] = []
    hands.crew.slots = 1
    for name in reversed(hands.parts.queues.names):
        await hands.know(a_job(f"in-{name}", body, queue=name))
        for _ in range(3):
            await hands.dispatch(f"in-{name}")
    async with hands.working():
        await until(lambda: len(began) == 12)
    assert began == [name for name in hands.parts.queues.names for _ in range(3)]


async def test_reserved_share_of_a_queue_is_left_free_by_the_others(parts: Parts) -> None:
    hands = Hands(configured(parts, queues={"payroll": Queue(reserved=2)}))
    await hands.join()
    gate = Gate()
    await hands.know(a_job("work", gate.body), a_job("pay", gate.body, queue="payroll"))
    hands.crew.slots = 4
    for _ in range(6):
        await hands.dispatch()
    async with hands.working():
        await until(lambda: len(gate.began) == 2)
        for _ in range(5):
            await hands.dispatch("pay")
        hands.crew.work.set()
        await until(lambda: len(gate.began) == 4)
        assert Counter(gate.began) == {"default": 2, "payroll": 2}
        gate.open.set()
        await settled_by(hands, "work")
        await settled_by(hands, "pay")
    assert gate.most == 4
    hands.die()


async def test_reserved_share_of_a_queue_that_is_not_polled_here_costs_no_slot(
    parts: Parts,
) -> None:
    workers = parts.config.workers.model_copy(update={"queues": ("default",)})
    hands = Hands(configured(parts, workers=workers, queues={"payroll": Queue(reserved=20)}))
    await hands.join()
    await hands.know(a_job())
    await hands.dispatch()
    async with hands.working():
        await settled_by(hands, "work")
    hands.die()


async def test_queues_not_given_to_this_daemon_are_not_polled(parts: Parts) -> None:
    workers = parts.config.workers.model_copy(update={"queues": ("default",)})
    hands = Hands(configured(parts, workers=workers))
    await hands.join()
    await hands.know(a_job(), a_job("other", queue="high"))
    other = await hands.dispatch("other")
    await hands.dispatch()
    async with hands.working():
        await settled_by(hands, "work")
    assert await hands.at(other.execution_id) == "queue"
    hands.die()


async def test_wake_up_a_push_into_an_empty_queue_starts_it_without_a_poll(parts: Parts) -> None:
    workers = parts.config.workers.model_copy(update={"poll_interval": 60.0})
    hands = Hands(configured(parts, workers=workers))
    await hands.join()
    await hands.know(a_job())
    waker = asyncio.create_task(Waker(hands.parts, hands.crew.work.set).run(lambda: None))
    async with hands.working():
        await until(lambda: subscribers(hands))
        await hands.dispatch()
        await settled_by(hands, "work")
    waker.cancel()
    await asyncio.gather(waker, return_exceptions=True)
    hands.die()


async def test_wake_up_a_resume_starts_what_was_paused_without_a_poll_or_a_beat(
    parts: Parts,
) -> None:
    workers = parts.config.workers.model_copy(update={"poll_interval": 60.0})
    hands = Hands(configured(parts, workers=workers))
    await hands.join()
    await hands.know(a_job())
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "default", "ann", "month's end")
    acquirer = hands.crew.acquirer
    waker = Waker(hands.parts, hands.crew.work.set, acquirer.forget_pauses)
    listening = asyncio.create_task(waker.run(lambda: None))
    async with hands.working():
        await until(lambda: subscribers(hands))
        await hands.dispatch()
        await until(lambda: acquirer.paused == {"default"})
        async with hands.parts.store.connection() as c:
            await queues.resume(c, "default")
        await publish(hands.parts.client, hands.parts.keys.wake)
        await settled_by(hands, "work")
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    hands.die()


def test_wake_up_a_push_into_a_paused_queue_leaves_it_paused(hands: Hands) -> None:
    """Or a message that is pushed back would be fetched again and again."""
    acquirer = hands.crew.acquirer
    acquirer.paused = {"default"}
    waker = Waker(hands.parts, hands.crew.work.set, acquirer.forget_pauses)
    waker._heard("default")
    assert acquirer.paused == {"default"}
    waker._heard("")
    assert acquirer.paused == set()


async def subscribers(hands: Hands) -> bool:
    answer = await hands.redis("PUBSUB", "NUMSUB", hands.parts.keys.wake)
    return int(answer[1]) > 0


async def test_paused_queue_is_pushed_back_not_polled_and_goes_on_when_resumed(
    hands: Hands,
) -> None:
    await hands.know(a_job(), a_job("urgent", queue="high"))
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "default", "ann", "month's end")
    paused = await hands.dispatch()
    async with hands.working():
        await until(lambda: hands.crew.acquirer.paused == {"default"})
        assert await hands.at(paused.execution_id) == "queue"
        await hands.dispatch("urgent")
        hands.crew.work.set()
        await settled_by(hands, "urgent")
        async with hands.parts.store.connection() as c:
            await queues.resume(c, "default")
        await hands.beat()  # tells the worker, and wakes it
        await settled_by(hands, "work")
    assert await hands.state(paused.execution_id) == "succeeded"


async def test_unknown_class_is_left_to_a_daemon_that_knows_it(hands: Hands) -> None:
    await hands.know(a_job())
    sent = await hands.dispatch()
    newer = await Hands(hands.parts, "newer").join()
    newer.crew.acquirer.jobs = ("work",)
    hands.crew.acquirer.jobs = ("something-else",)
    async with hands.working():
        await until(lambda: is_delayed(hands, sent.execution_id))
    assert (await hands.row(sent.execution_id))["attempt"] == 1
    newer.identity.offset += 6
    async with newer.working():
        await Promoter(newer.parts, newer.identity).tick()
        newer.crew.work.set()
        await settled_by(newer, "work")
    assert (await hands.row(sent.execution_id))["worker_id"] == newer.worker_id
    newer.die()


async def is_delayed(hands: Hands, execution_id: int) -> bool:
    return await hands.at(execution_id) == "delayed"


async def test_a_dead_worker_fetches_nothing(hands: Hands) -> None:
    await hands.know(a_job())
    sent = await hands.dispatch()
    hands.identity.dead = True
    assert await Fetcher(hands.crew).turn() == 0
    assert await hands.at(sent.execution_id) == "queue"


@pytest.mark.parametrize("key", [None, "k"])
async def test_one_that_was_declared_dead_and_does_not_know_it_yet_does_not_spin(
    hands: Hands, key: str | None
) -> None:
    await hands.know(a_job())
    sent = [await hands.dispatch(exclusive_key=key) for _ in range(5)]
    await hands.sql("update task_workers set dead_at = now()")
    fetcher = Fetcher(hands.crew)
    turns = 0
    while await fetcher.turn():
        turns += 1
        assert turns < 20
    assert not await fetcher.turn()  # not even when it is woken
    assert await hands.at(sent[0].execution_id) == "queue"


async def test_a_redis_that_does_not_remember_gives_nothing_and_is_suspected(
    hands: Hands,
) -> None:
    suspicions: list[int] = []
    hands.parts.memory.on_suspicion.append(lambda: suspicions.append(1))
    await hands.redis("DEL", hands.parts.keys.epoch)
    assert await Fetcher(hands.crew).turn() == 0
    assert suspicions == [1]
