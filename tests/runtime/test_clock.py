"""Time comes in at one place, and can be moved by hand."""

import asyncio
import math
from datetime import UTC, timedelta

from taskengine.runtime.clock import SystemClock, wait
from tests.support.fake_clock import START, FakeClock


async def test_the_system_clock_is_in_utc_and_takes_any_number() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    before = clock.monotonic()
    for seconds in (-1.0, 0.0, math.nan, 0.001):
        await clock.sleep(seconds)
    assert 0 < clock.monotonic() - before < 5


async def test_sleepers_wake_in_the_order_of_their_time() -> None:
    clock, woken = FakeClock(), []

    async def sleeper(name: str, *seconds: float) -> None:
        for each in seconds:
            await clock.sleep(each)
            woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("late", 30))
        group.create_task(sleeper("twice", 10, 15))
        group.create_task(sleeper("early", 10))
        await clock.advance(29)
        assert woken == [("twice", 10), ("early", 10), ("twice", 25)]
        assert clock.sleeping == 1
        assert clock.next_wake == 1
        await clock.advance(1)
    assert woken[-1] == ("late", 30)
    assert clock.now() == START + timedelta(seconds=30)


async def test_a_jump_of_the_wall_clock_wakes_nobody() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    clock.jump(3600)
    await clock.settle()
    assert not task.done()
    assert clock.monotonic() == 0
    await clock.advance(5)
    assert task.done()


async def test_a_sleeper_that_was_cancelled_is_forgotten() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    task.cancel()
    await clock.settle()
    assert clock.next_wake is None


async def test_wait_ends_with_the_event_or_the_time() -> None:
    clock, event = FakeClock(), asyncio.Event()
    timed_out = asyncio.create_task(wait(clock, event, 5))
    await clock.advance(5)
    assert await timed_out is False
    heard = asyncio.create_task(wait(clock, event, 5))
    await clock.settle()
    event.set()
    assert await heard is True
    assert await wait(clock, event, 5) is True
    assert clock.next_wake is None, "no alarm is left behind"


async def test_wait_can_be_cancelled() -> None:
    clock = FakeClock()
    task = asyncio.create_task(wait(clock, asyncio.Event(), 5))
    await clock.settle()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
