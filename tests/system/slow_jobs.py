"""Jobs of a daemon under systemd."""

from __future__ import annotations

import asyncio
import time

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
