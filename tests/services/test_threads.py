"""The loop "workers" under a backlog of plain functions: they wait for their threads unclaimed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from taskengine.lifecycle import ahead, parked
from taskengine.lifecycle.dispatch import Request
from taskengine.lifecycle.fetch import Fetcher
from taskengine.lifecycle.parked import Parked
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Reservation
from taskengine.services.orphans import Reservations
from tests.support.fake_clock import FakeClock
from tests.support.make import Hands, a_job, settled_by
from tests.support.until import until

QUEUES = ("high", "default")


class Held:
    """Bodies that hold their threads until they are let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def body(self, ctx: Any) -> None:
        self.let_go.wait(20)


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.let_go.set()


async def many(hands: Hands, count: int, name: str = "plain") -> list[int]:
    made = await hands.dispatcher.dispatch_many([Request(name) for _ in range(count)])
    return [each.execution_id for each in made if not isinstance(each, Exception)]


async def backlog(hands: Hands, held: Held, count: int = 20) -> None:
    """Two threads, both held, and so many that wait for one."""
    await hands.know(a_job("plain", held.body), a_job("quick"), a_job("low", queue="low"))
    hands.crew.threads.resize(2)
    await many(hands, count + 2)


async def test_a_backlog_costs_each_one_claim_and_releases_none(hands: Hands) -> None:
    most, now, lock = 0, 0, threading.Lock()

    def body(ctx: Any) -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        with lock:
            now -= 1

    await hands.know(a_job("plain", body), a_job("quick"))
    hands.crew.threads.resize(4)
    await many(hands, 300)
    async with hands.working():
        await settled_by(hands, "plain")
    assert await hands.sql("select distinct state, fence, attempt from task_executions") == [
        {"state": "succeeded", "fence": 1, "attempt": 1}
    ]
    assert await hands.sql("select from task_attempts where move = 'released'") == []
    assert 1 <= most <= 4


async def test_all_jobs_plain_functions_is_one_claim_each_too(hands: Hands) -> None:
    await hands.know(a_job("plain", lambda ctx: None))
    hands.crew.threads.resize(4)
    await many(hands, 100)
    async with hands.working():
        await settled_by(hands, "plain")
    assert await hands.sql("select distinct fence from task_executions") == [{"fence": 1}]


async def test_what_needs_no_thread_passes_a_backlog_of_its_own_queue_and_of_a_higher_one(
    hands: Hands, held: Held
) -> None:
    await backlog(hands, held, 1500)
    await many(hands, 3, "quick")
    await many(hands, 3, "low")
    async with hands.working():
        await settled_by(hands, "quick")
        await settled_by(hands, "low")
        assert hands.crew.free_threads == 0
        rows = await hands.sql("select count(*) from task_executions where state = 'running'")
        assert rows[0]["count"] == 2
        await hands.sql("delete from task_executions where state = 'pending'")
        held.let_go.set()
    assert await hands.sql("select from task_attempts") == []


async def test_a_look_goes_on_to_the_end_of_a_backlog_however_long_that_takes(
    hands: Hands, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_AHEAD", 5)
    monkeypatch.setattr(ahead, "_ANEW", 0.0)
    await backlog(hands, held, 200)
    (quick,) = await many(hands, 1, "quick")
    fetcher = Fetcher(hands.crew)
    for _ in range(100):
        await fetcher.turn()
    assert (await hands.row(quick))["fence"] == 1
    held.let_go.set()
    async with hands.settling():
        await until(lambda: not hands.crew.inflight.unfinished())


async def test_no_more_than_the_bound_wait_here_and_nobody_spins(
    hands: Hands, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    reserve = hands.crew.acquirer.reserve

    async def counted(limits: Sequence[tuple[str, int]], n: int) -> list[Reservation]:
        asked.append(n)
        return await reserve(limits, n)

    monkeypatch.setattr(hands.crew.acquirer, "reserve", counted)
    monkeypatch.setattr(parked, "_PATIENCE", 60.0)
    await backlog(hands, held, 100)
    async with hands.working() as worker:
        await until(lambda: worker._fetcher.parked.room == 0)
        waiting = len(worker._fetcher.parked)
        assert 0 < waiting <= worker._fetcher.parked.most == 64
        assert len(asked) < 10
        asked.clear()
        while await worker._fetcher.turn():  # to the end of what may be looked at
            pass
        for _ in range(20):
            hands.crew.work.set()
            assert not await worker._fetcher.turn()
        assert asked == []
        depth = (await hands.parts.queues.depths())["default"]
        assert (depth.waiting, depth.processing) == (100 - waiting, waiting)
        held.let_go.set()
        await settled_by(hands, "plain")


async def test_drain_puts_those_that_wait_back_at_once_in_their_order(
    hands: Hands, held: Held
) -> None:
    await backlog(hands, held, 10)

    async def nothing_reserved() -> bool:
        return (await hands.parts.queues.depths())["default"].processing == 0

    async with hands.working() as worker:
        await until(lambda: len(worker._fetcher.parked) == 10)
        draining = asyncio.create_task(worker.drain())
        await until(nothing_reserved)  # while the two bodies still hold their threads
        left = await hands.sql(
            "select id, fence, (extract(epoch from run_at) * 1000000)::bigint as score"
            " from task_executions where state = 'pending' order by id"
        )
        assert [row["fence"] for row in left] == [0] * 10
        key = hands.parts.keys.queue("default")
        for row in left:
            assert int(await hands.redis("ZSCORE", key, row["id"])) == row["score"]
        held.let_go.set()
        await draining


async def test_those_of_a_daemon_that_dies_come_back_by_the_grace(hands: Hands, held: Held) -> None:
    await backlog(hands, held, 10)
    fetcher = Fetcher(hands.crew)
    while await fetcher.turn():
        pass
    assert len(fetcher.parked) == 10
    await hands.age_reservations()
    await Reservations(hands.parts).tick()
    assert (await hands.parts.queues.depths())["default"].waiting == 10
    held.let_go.set()
    async with hands.settling():
        await until(lambda: not hands.crew.inflight.unfinished())


async def test_those_that_wait_in_vain_are_given_back_to_whoever_has_a_thread(
    hands: Hands, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backlog(hands, held, 10)
    fetcher = Fetcher(hands.crew)
    while await fetcher.turn():
        pass
    monkeypatch.setattr(parked, "_PATIENCE", 0.0)
    await hands.crew.acquirer.put_away(fetcher.parked.take_old(), [])
    assert (await hands.parts.queues.depths())["default"].waiting == 10
    other = await Hands(hands.parts, "other").join()
    monkeypatch.setattr(parked, "_PATIENCE", 60.0)
    held.let_go.set()
    async with hands.settling(), other.working():
        await settled_by(other, "plain")
    other.die()
    assert await hands.sql("select distinct fence from task_executions") == [{"fence": 1}]


async def test_what_waits_here_and_runs_elsewhere_by_now_is_dropped(
    hands: Hands, held: Held
) -> None:
    await backlog(hands, held, 3)
    fetcher = Fetcher(hands.crew)
    while await fetcher.turn():
        pass
    await hands.sql(
        "update task_executions set state = 'succeeded', finished_at = now() where state = 'pending'"
    )
    held.let_go.set()
    async with hands.settling():
        await until(lambda: hands.crew.free_threads == 2)
        while await fetcher.turn():
            pass
        assert (await hands.parts.queues.depths())["default"].processing == 0
    assert await hands.sql("select from task_executions where fence > 1") == []


async def test_without_redis_a_backlog_costs_each_one_claim_too(parts: Parts) -> None:
    redis = parts.config.redis.model_copy(update={"enabled": False})
    off = replace(parts, config=parts.config.model_copy(update={"redis": redis}))
    hands = await Hands(off).join()
    await hands.know(a_job("plain", lambda ctx: None), a_job("quick"))
    hands.crew.threads.resize(2)
    await many(hands, 60)
    await many(hands, 3, "quick")
    async with hands.working():
        await settled_by(hands, "quick")
        await settled_by(hands, "plain")
    assert await hands.sql("select distinct fence from task_executions") == [{"fence": 1}]
    hands.die()


async def test_plain_functions_under_one_exclusive_key_run_one_after_another(hands: Hands) -> None:
    most, now, lock = 0, 0, threading.Lock()

    def body(ctx: Any) -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        with lock:
            now -= 1

    await hands.know(a_job("plain", body), a_job("quick"))
    hands.crew.threads.resize(2)
    for number in range(12):
        sent = await hands.insert("plain", f"k{number}", exclusive=f"e{number % 2}")
        await hands.parts.queues.push([sent])
    async with hands.working():
        await settled_by(hands, "plain")
    assert await hands.sql("select distinct fence from task_executions") == [{"fence": 1}]
    assert most <= 2


# ---- the list by itself --------------------------------------------------------------------------


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def a_list(hands: Hands, clock: FakeClock) -> Parked:
    hands.crew.threads.resize(2)
    return Parked(hands.crew.threads, QUEUES, clock, grace=1.0)


async def test_the_first_queue_goes_first_each_has_its_limit(
    hands: Hands, clock: FakeClock
) -> None:
    waiting = a_list(hands, clock)
    waiting.add([Reservation(1, "default"), Reservation(2, "high"), Reservation(3, "high")], 0.0)
    taken = waiting.take(5, [("high", 1), ("default", 5)])
    assert [each.id for each in taken] == [2, 1]
    assert len(waiting) == 1


async def test_what_waited_long_is_given_back_and_what_waited_longer_forgotten(
    hands: Hands, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked, "_PATIENCE", 0.2)
    waiting, now = a_list(hands, clock), clock.monotonic()
    waiting.add([Reservation(1, "high")], now - 0.6)  # the grace is 1.0
    waiting.add([Reservation(2, "high")], now - 0.3)
    waiting.add([Reservation(3, "high")], now - 0.1)
    assert [each.id for each in waiting.take_old()] == [2]
    assert [each.id for each in waiting.take_all()] == [3]


async def test_after_some_waited_in_vain_nothing_waits_for_a_while(
    hands: Hands, clock: FakeClock
) -> None:
    waiting = a_list(hands, clock)
    assert waiting.room == waiting.most == 64
    waiting.add([Reservation(1, "high")], clock.monotonic() - 60)
    waiting.take_old()
    assert (waiting.room, len(waiting), waiting.backlog) == (0, 0, True)
    await clock.advance(2.0)
    assert (waiting.room, waiting.backlog) == (64, False)


async def test_the_bound_grows_with_the_threads(hands: Hands, clock: FakeClock) -> None:
    waiting = a_list(hands, clock)
    hands.crew.threads.resize(16)
    assert waiting.most == 256
    waiting.add([Reservation(number, "high") for number in range(1, 200)], clock.monotonic())
    assert waiting.room == 0  # nearly full
