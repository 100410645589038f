"""Jobs that behave badly."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

from taskengine import JobContext, job


@job("swallows", timeout=600)
async def swallows(ctx: JobContext) -> None:
    """Will not be stopped."""
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


@job("holds-a-thread", timeout=600)
def holds_a_thread(ctx: JobContext) -> None:
    """A thread that cannot be stopped."""
    time.sleep(600)


@job("exits-in-a-child", timeout=600, max_attempts=1)
async def exits_in_a_child(ctx: JobContext) -> None:
    """`sys.exit()` in a task of the job's own."""

    async def child() -> None:
        sys.exit(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(child())
        await asyncio.sleep(1)


@job("blocks", timeout=600)
async def blocks(ctx: JobContext, seconds: float) -> None:
    """Stops the whole loop."""
    time.sleep(seconds)


@job("naps", timeout=600)
async def naps(ctx: JobContext, seconds: float = 0.0) -> None:
    await asyncio.sleep(seconds)


@job("short")
async def short(ctx: JobContext) -> int:
    return ctx.execution_id


@job("awaits-a-thread", timeout=600)
async def awaits_a_thread(ctx: JobContext) -> None:
    """A thread of the loop's own executor."""
    await asyncio.to_thread(time.sleep, 600)


_LEFT: set[asyncio.Task[None]] = set()


@job("leaves-a-task", timeout=600)
async def leaves_a_task(ctx: JobContext) -> None:
    """Its task goes on, and will not be stopped."""

    async def stays() -> None:
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                continue

    _LEFT.add(asyncio.create_task(stays()))


@job("leaves-a-thread", timeout=600)
def leaves_a_thread(ctx: JobContext) -> None:
    """Its thread goes on."""
    threading.Thread(target=time.sleep, args=(600,)).start()
