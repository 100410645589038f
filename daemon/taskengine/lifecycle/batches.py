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


class Coalescer(Generic[T, R]):
    """Callers wait for their own answer; items travel together.

    `run` answers for each item: its value, or the error to raise to that caller. A caller that
    stops waiting leaves its batch alone.
    """

    def __init__(
        self,
        run: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]],
        limit: int = 500,
        in_flight: int = 2,
    ) -> None:
        self._run = run
        self._limit = limit
        self._free = in_flight
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: T) -> R:
        """Send the item with the next batch; its answer."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._start()
        return await future

    def _start(self) -> None:
        if not self._free or not self._waiting:
            return
        self._free -= 1
        task = asyncio.create_task(self._work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        try:
            await asyncio.sleep(0)  # let those who are about to submit join
            while self._waiting:
                count = min(self._limit, len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(count)]
                await self._answer(batch)
        finally:
            self._free += 1

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
) -> list[R]:
    """Run the batch; on a data error or a lock, halve it until the bad item stands alone."""
    try:
        return await run(items)
    except (DataRejected, StoreBusy) as error:
        if len(items) == 1:
            return await alone(items[0], error)
    middle = len(items) // 2
    first = await halved(items[:middle], run, alone)
    return first + await halved(items[middle:], run, alone)
