"""Natural batching, and what to do when one row spoils a batch.

What arrives while a batch is in flight goes together in the next one: no wait when idle, one
statement when busy.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from taskengine.errors import DataRejected, StoreBusy

T = TypeVar("T")
R = TypeVar("R")

_LANES = 8
_SLOW_SECONDS = 0.05


class Coalescer(Generic[T, R]):
    """Callers wait for their own answer; items travel together.

    `run` answers for each item: its value, or the error to raise to that caller. A caller that
    stops waiting leaves its batch alone. One batch is in flight at a time, because two would only
    halve each other; a batch that takes long (a lock, a dying store) lets another one start beside
    it.
    """

    def __init__(
        self, run: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]], limit: int = 500
    ) -> None:
        self._run = run
        self._limit = limit
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._lanes: set[asyncio.Task[None]] = set()
        self._slow: set[asyncio.Task[None]] = set()

    async def submit(self, item: T) -> R:
        """Send the item with the next batch; its answer."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._start()
        return await future

    def _start(self) -> None:
        """Open a lane, unless one is there that will take what waits."""
        if not self._waiting or self._lanes - self._slow or len(self._lanes) >= _LANES:
            return
        lane = asyncio.create_task(self._work())
        self._lanes.add(lane)

    async def _work(self) -> None:
        lane = asyncio.current_task()
        assert lane is not None  # noqa: S101  we run in it
        try:
            while self._waiting:
                await self._batch(lane)
        finally:  # in the same breath as the last look: who submits later opens a lane of its own
            self._lanes.discard(lane)
            self._slow.discard(lane)

    async def _batch(self, lane: asyncio.Task[None]) -> None:
        await asyncio.sleep(0)  # let those who are about to submit join
        count = min(self._limit, len(self._waiting))
        batch = [self._waiting.popleft() for _ in range(count)]
        alarm = asyncio.get_running_loop().call_later(_SLOW_SECONDS, self._relieve, lane)
        await self._answer(batch)
        alarm.cancel()
        self._slow.discard(lane)
        await asyncio.sleep(0)  # those who were answered may submit again

    def _relieve(self, lane: asyncio.Task[None]) -> None:
        """This lane's batch takes long: others need not wait for it."""
        self._slow.add(lane)
        self._start()

    async def _answer(self, batch: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        answers: Sequence[R | Exception]
        try:
            answers = await self._run([item for item, _ in batch])
        except Exception as error:
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


async def halved(
    items: Sequence[T],
    run: Callable[[Sequence[T]], Awaitable[list[R]]],
    alone: Callable[[T, Exception], Awaitable[list[R]]],
    unlocked: Callable[[Sequence[T]], Awaitable[Sequence[T]]] | None = None,
) -> list[R]:
    """Run the batch; on a data error or a lock, halve it until the bad item stands alone.

    Each half behind a lock waits for it a moment: many locked rows would hold up all others for
    minutes. `unlocked` picks those that are free at once.
    """
    try:
        return await run(items)
    except (DataRejected, StoreBusy) as error:
        if len(items) == 1:
            return await alone(items[0], error)
        if unlocked is not None and isinstance(error, StoreBusy):
            free = await unlocked(items)
            locked = set(items) - set(free)
            answers = [
                each for item in items if item in locked for each in await alone(item, error)
            ]
            return answers + (await halved(free, run, alone) if free else [])
    middle = len(items) // 2
    first = await halved(items[:middle], run, alone)
    return first + await halved(items[middle:], run, alone)
