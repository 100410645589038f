"""Jobs that not every daemon knows."""

from __future__ import annotations

import asyncio
import os
import signal

from taskengine import JobContext, job
from tests.chaos.journal import body


@job("rare", retry_backoff=1, max_orphanings=20)
async def rare(ctx: JobContext) -> None:
    """Waits for a daemon that knows it."""
    with body(ctx):
        await asyncio.sleep(0.02)


@job("killer", queue="low", retry_backoff=1, max_orphanings=3)
async def killer(ctx: JobContext, times: int) -> None:
    """Kills its process so many times."""
    with body(ctx):
        await asyncio.sleep(0.05)
        if ctx.attempt <= times:
            os.kill(os.getpid(), signal.SIGKILL)
