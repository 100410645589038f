"""Jobs of a daemon under systemd."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor

from taskengine import JobContext, job


@job("slow", queue="high", timeout=60, max_attempts=3, retry_backoff=1)
async def slow(ctx: JobContext, seconds: float = 0) -> None:
    """Takes so long, and says so."""
    ctx.info("at work", seconds=seconds)
    await asyncio.sleep(seconds)


@job("blocking", timeout=60, max_attempts=1)
async def blocking(ctx: JobContext) -> None:
    """Holds up the whole loop."""
    time.sleep(45)


@job("failing", max_attempts=1)
async def failing(ctx: JobContext) -> None:
    """Fails at once."""
    raise RuntimeError("password=hunter2 was refused")


@job("reach", max_attempts=1)
async def reach(ctx: JobContext, host: str, port: int) -> str:
    """Whether this address answers, refuses, or is not to be reached from here."""
    try:
        async with asyncio.timeout(5):
            _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return type(error).__name__
    writer.close()
    return "reached"


@job("hands", max_attempts=1)
async def hands(ctx: JobContext) -> int:
    """A thread, a process of Python's and a program: how many of them did their work."""
    loop = asyncio.get_running_loop()
    threads = await asyncio.to_thread(lambda: 1)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        other = await loop.run_in_executor(pool, os.getpid)
    program = await asyncio.create_subprocess_exec("/bin/true")
    return threads + (other != os.getpid()) + (await program.wait() == 0)
