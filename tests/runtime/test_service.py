"""The loop that is written once: its rhythm, its one error rule, and what can be seen of it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from taskengine.errors import BrokerUnavailable, ServiceFailed, StoreBusy, StoreUnavailable
from taskengine.runtime.service import Periodic
from tests.support.fake_clock import FakeClock

Script = list[bool | Exception]


class Loop(Periodic):
    """Plays a script of answers, then has nothing to do; notes when its turns were."""

    name = "loop"

    def __init__(self, clock: FakeClock, script: Script, jitter: random.Random | None = None):
        super().__init__(clock, 10.0, jitter)
        self.script = script
        self.turns: list[float] = []
        self.during: Callable[[], object] = lambda: None

    async def tick(self) -> bool:
        self.turns.append(self.clock.monotonic())
        self.during()
        answer = self.script.pop(0) if self.script else False
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def running(loop: Loop) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(loop.run(lambda: None))
    yield task
    task.cancel()
    await asyncio.wait([task])


async def test_a_turn_at_once_then_one_each_interval() -> None:
    clock = FakeClock()
    async with running(loop := Loop(clock, [])):
        await clock.advance(25)
    assert loop.turns == [0, 10, 20]


async def test_more_to_do_means_the_next_turn_at_once() -> None:
    clock = FakeClock()
    async with running(loop := Loop(clock, [True, True, False])):
        await clock.advance(10)
    assert loop.turns == [0, 0, 0, 10]


async def test_a_nudge_means_the_next_turn_at_once() -> None:
    clock = FakeClock()
    async with running(loop := Loop(clock, [])):
        await clock.advance(3)
        loop.nudge()
        loop.nudge()
        await clock.advance(3)
        assert loop.turns == [0, 3]
        await clock.advance(7)
    assert loop.turns == [0, 3, 13]


async def test_a_nudge_during_a_turn_is_not_lost() -> None:
    clock = FakeClock()
    loop = Loop(clock, [])
    loop.during = lambda: loop.nudge() if len(loop.turns) == 1 else None
    async with running(loop):
        await clock.advance(1)
    assert loop.turns == [0, 0]


async def test_chance_shortens_the_wait_by_a_tenth_at_most() -> None:
    clock = FakeClock()
    async with running(loop := Loop(clock, [], random.Random(1))):
        await clock.advance(1000)
    gaps = [b - a for a, b in zip(loop.turns, loop.turns[1:], strict=False)]
    assert all(9 < gap <= 10 for gap in gaps)
    assert len(set(gaps)) > 50


@pytest.mark.parametrize("error", [StoreUnavailable("x"), StoreBusy("x"), BrokerUnavailable("x")])
async def test_a_store_that_is_away_is_progress_for_ever(error: Exception) -> None:
    clock = FakeClock()
    away: Script = [error] * 50
    async with running(loop := Loop(clock, away)) as task:
        await clock.advance(500)
        assert not task.done()
        assert loop.turns[:5] == [0, 1, 3, 7, 12]
        assert not loop.stalled(clock.monotonic(), 1)
        assert not away


async def test_a_group_of_such_errors_counts_as_one() -> None:
    clock = FakeClock()
    group = ExceptionGroup("turn", [StoreUnavailable("x"), BrokerUnavailable("x")])
    async with running(Loop(clock, [group] * 10)) as task:
        await clock.advance(500)
        assert not task.done()


async def test_other_errors_are_survived_but_not_five_in_a_row() -> None:
    clock = FakeClock()
    script: Script = [*[ValueError("x")] * 4, False, *[ValueError("y")] * 5]
    async with running(loop := Loop(clock, script)) as task:
        await clock.advance(20)
        assert not task.done()
        await clock.advance(100)
        assert task.done()
        with pytest.raises(ServiceFailed, match=r"'loop' failed 5 times in a row.*ValueError: y"):
            task.result()
    assert len(loop.turns) == 10


async def test_a_back_off_is_not_cut_short_by_a_nudge() -> None:
    clock = FakeClock()
    async with running(loop := Loop(clock, [StoreUnavailable("x")])):
        await clock.settle()
        loop.nudge()
        await clock.advance(0.5)
        assert loop.turns == [0]
        await clock.advance(0.5)
    assert loop.turns == [0, 1]


def seen(loop: Loop) -> tuple[object, ...]:
    return loop.last_turn, loop.last_length, loop.last_findings


async def test_what_can_be_seen_of_the_last_turn() -> None:
    clock = FakeClock()
    loop = Loop(clock, [])
    loop.during = lambda: loop.found(pushed=3)
    assert seen(loop) == (None, 0.0, {})
    async with running(loop):
        await clock.advance(15)
    assert seen(loop) == (10, 0.0, {"pushed": 3})


class Stuck(Loop):
    """A turn that lasts for ever."""

    async def tick(self) -> bool:
        await self.clock.sleep(1e9)
        return False


async def test_a_turn_that_does_not_end_is_a_stall() -> None:
    clock = FakeClock()
    async with running(loop := Stuck(clock, [])):
        await clock.advance(60)
        assert not loop.stalled(clock.monotonic(), 60)
        await clock.advance(1)
        assert loop.stalled(clock.monotonic(), 60)
        loop.progress()
        assert not loop.stalled(clock.monotonic(), 60)


async def test_waiting_longer_than_the_limit_is_no_stall() -> None:
    clock = FakeClock()
    async with running(loop := Loop(clock, [])):
        await clock.advance(9)
        assert not loop.stalled(clock.monotonic(), 5)
    assert loop.stalled(100, 5), "but overrunning the end of the wait is"
