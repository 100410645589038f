"""The event loop's lateness: the worst of it is shown until a scrape has surely seen it."""

from __future__ import annotations

import asyncio

from taskengine.services.lag import LoopLag
from tests.support.fake_clock import FakeClock


def test_the_worst_stays_for_a_window_and_no_longer_than_two() -> None:
    shown: list[float] = []
    lag = LoopLag(FakeClock(), shown.append)
    begun = FakeClock().monotonic()
    for at, late in ((1, 0.01), (2, 3.0), (3, 0.02), (31, 0.01), (59, 0.01), (61, 0.01)):
        lag.saw(begun + at, late)
    assert shown == [0.01, 3.0, 3.0, 3.0, 3.0, 0.01]


async def test_a_nap_that_is_overslept_is_seen() -> None:
    class Late(FakeClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds + 2.0)

    clock, shown = Late(), list[float]()
    running = asyncio.create_task(LoopLag(clock, shown.append).run(lambda: None))
    await clock.advance(2.25)
    running.cancel()
    assert shown == [2.0]
