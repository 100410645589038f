"""Tiers start left to right and end right to left; what fails or stalls ends the process."""

import asyncio
from collections.abc import Callable

import anyio
import pytest

from taskengine.errors import ConfigError, MigrationError, ServiceFailed, WrongDatabase
from taskengine.runtime.service import Service
from taskengine.runtime.supervisor import Limits, Supervisor, Tier, exit_status
from taskengine.runtime.systemd import Notifier
from tests.support.fake_clock import FakeClock

LIMITS = Limits(stall=60, drain=90, grace=5, look=5)


class Actor(Service):
    """Tells in `log` what happens to it; ready after `slow` seconds, drained after `drain_time`."""

    def __init__(self, name: str, log: list[str], clock: FakeClock) -> None:
        self.name = name
        self.log = log
        self.clock = clock
        self.slow = self.drain_time = 0.0
        self.error: Exception | None = None
        self.drain_error: Exception | None = None
        self.is_stalled = self.ends = self.ignores = False
        self.go = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        self.log.append(f"{self.name} starts")
        await self.clock.sleep(self.slow)
        ready()
        try:
            await self.go.wait()
        finally:
            self.log.append(f"{self.name} ends")
            with anyio.CancelScope(shield=True):
                await self.clock.sleep(20 if self.ignores else 0)
        if self.error:
            raise self.error

    async def drain(self) -> None:
        self.log.append(f"{self.name} drains")
        if self.drain_error:
            raise self.drain_error
        await self.clock.sleep(self.drain_time)
        self.log.append(f"{self.name} drained")
        if self.ends:
            self.go.set()

    def hurry(self) -> None:
        self.log.append(f"{self.name} hurries")

    def stalled(self, now: float, limit: float) -> bool:
        return self.is_stalled


class Told(Notifier):
    def __init__(self) -> None:
        super().__init__(None)
        self.said: list[str] = []

    def _send(self, *lines: str) -> None:
        self.said += lines


class House:
    """A supervisor over web | sweep, promoter | worker, running."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log: list[str] = []
        names = ("web", "sweep", "promoter", "worker")
        self.web, self.sweep, self.promoter, self.worker = (
            Actor(name, self.log, self.clock) for name in names
        )
        self.told = Told()
        self.stop = asyncio.Event()
        tiers = [
            Tier("health answers to the very end", (self.web,)),
            Tier("sweeps", (self.sweep, self.promoter)),
            Tier("workers last", (self.worker,)),
        ]
        self.supervisor = Supervisor(tiers, self.clock, LIMITS, self.told)

    async def start(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self.supervisor.run(self.stop))
        await self.clock.settle()
        return task

    async def end(self, seconds: float = 1) -> None:
        self.stop.set()
        await self.clock.advance(seconds)


@pytest.fixture
async def house() -> House:
    return House()


async def test_a_tier_starts_when_the_one_before_is_ready(house: House) -> None:
    house.sweep.slow = 3
    task = await house.start()
    assert house.log == ["web starts", "sweep starts", "promoter starts"]
    assert "READY=1" not in house.told.said
    await house.clock.advance(3)
    assert house.log[-1] == "worker starts"
    assert house.told.said == ["READY=1"]
    await house.end()
    await task


async def test_tiers_drain_and_end_right_to_left(house: House) -> None:
    task = await house.start()
    house.log.clear()
    house.worker.drain_time = 30
    house.stop.set()
    await house.clock.advance(29)
    assert house.log == ["worker drains"], "nobody else stops while work is finished"
    assert house.told.said.count("STOPPING=1") == 1
    await house.clock.advance(1)
    await task
    assert house.log == [
        *("worker drains", "worker drained", "worker ends"),
        *("sweep drains", "promoter drains", "sweep drained", "promoter drained"),
        *("sweep ends", "promoter ends"),
        *("web drains", "web drained", "web ends"),
    ]


async def test_a_service_may_end_by_itself_once_drained(house: House) -> None:
    task = await house.start()
    house.worker.ends = True
    await house.end()
    await task


async def test_a_stop_during_the_start_ends_what_was_started(house: House) -> None:
    house.sweep.slow = 1000
    task = await house.start()
    await house.end()
    await task
    assert "worker starts" not in house.log
    assert house.log[-1] == "web ends"
    assert "READY=1" not in house.told.said


async def test_a_drain_has_a_limit(house: House) -> None:
    task = await house.start()
    house.worker.drain_time = 1e6
    await house.end(89)
    assert not task.done()
    await house.clock.advance(2)
    await task
    assert "worker drained" not in house.log


async def test_hurry_skips_the_waiting(house: House) -> None:
    task = await house.start()
    house.worker.drain_time = 60
    await house.end(1)
    house.supervisor.hurry()
    assert "worker hurries" in house.log
    await house.clock.advance(4.5)
    assert not task.done(), "there is a little time to leave in order"
    await house.clock.advance(1)
    await task
    assert house.log[-1] == "web ends"


async def test_a_service_that_raises_ends_the_process_in_order(house: House) -> None:
    task = await house.start()
    house.sweep.error = ValueError("broken")
    house.sweep.go.set()
    await house.clock.advance(1)
    with pytest.raises(ValueError, match="broken"):
        await task
    assert house.log[-1] == "web ends"
    assert "worker drained" in house.log
    assert "sweep drains" not in house.log, "it is gone already"


async def test_a_service_that_returns_has_failed(house: House) -> None:
    task = await house.start()
    house.sweep.go.set()
    await house.clock.advance(1)
    with pytest.raises(ServiceFailed, match="'sweep' ended by itself"):
        await task


async def test_a_service_that_fails_at_the_start_ends_the_process(house: House) -> None:
    house.sweep.error = ConfigError("x")
    house.sweep.slow = 1
    house.promoter.slow = 1000
    house.sweep.go.set()
    task = await house.start()
    await house.clock.advance(2)
    with pytest.raises(ConfigError):
        await task
    assert "worker starts" not in house.log


async def test_a_drain_that_raises_fails_but_the_rest_ends_in_order(house: House) -> None:
    task = await house.start()
    house.worker.drain_error = ValueError("broken")
    await house.end()
    with pytest.raises(ValueError, match="broken"):
        await task
    assert house.log[-1] == "web ends"


async def test_a_stall_ends_the_process_and_starves_the_watchdog(house: House) -> None:
    task = await house.start()
    await house.clock.advance(5)
    assert house.told.said.count("WATCHDOG=1") == 1
    house.promoter.is_stalled = True
    await house.clock.advance(6)
    with pytest.raises(ServiceFailed, match="no progress for 60 s: promoter"):
        await task
    assert house.told.said.count("WATCHDOG=1") == 1
    assert house.log[-1] == "web ends"


async def test_a_process_that_stood_still_as_a_whole_blames_no_loop(house: House) -> None:
    task = await house.start()
    house.promoter.is_stalled = True
    house.clock._elapsed += 300  # as after SIGSTOP and SIGCONT: nobody could run meanwhile
    await house.clock.advance(0)
    assert not task.done()
    house.promoter.is_stalled = False
    await house.clock.advance(10)
    assert not task.done()
    await house.end()
    await task


async def test_a_long_drain_asks_systemd_for_time(house: House) -> None:
    task = await house.start()
    house.worker.drain_time = 60
    await house.end(12)
    assert house.told.said.count("EXTEND_TIMEOUT_USEC=15000000") == 2
    await house.clock.advance(60)
    await task


async def test_a_service_slow_to_end_does_not_hold_up_the_others(house: House) -> None:
    task = await house.start()
    house.worker.ignores = True
    await house.end(10)
    assert house.log[-1] == "web ends"
    assert not task.done()
    await house.clock.advance(11)
    await task


async def test_cancelled_from_outside_it_still_ends_in_order(house: House) -> None:
    task = await house.start()
    house.worker.drain_time = 60
    house.log.clear()
    task.cancel()
    await house.clock.advance(6)
    assert task.cancelled()
    ends = [line for line in house.log if line.endswith(" ends")]
    assert ends == ["worker ends", "sweep ends", "promoter ends", "web ends"]


async def test_in_a_cancelled_scope_it_still_ends_in_order(house: House) -> None:
    async def scoped() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await house.supervisor.run(house.stop)

    scopes: list[anyio.CancelScope] = []
    task = asyncio.create_task(scoped())
    await house.clock.settle()
    scopes[0].cancel()
    await house.clock.advance(6)
    await task
    ends = [line for line in house.log if line.endswith(" ends")]
    assert ends == ["worker ends", "sweep ends", "promoter ends", "web ends"]


def test_exit_status() -> None:
    assert exit_status(None) == 0
    assert exit_status(ServiceFailed("x")) == exit_status(OSError()) == 1
    for error in (ConfigError("x"), MigrationError("x"), WrongDatabase("x")):
        assert exit_status(error) == 78
