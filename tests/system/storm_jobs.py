"""The jobs of the storm and of the drain: each takes a while."""

from __future__ import annotations

import asyncio

from taskengine import JobContext, job


@job("storm", retry_backoff=1, max_attempts=10, max_orphanings=10)
async def storm(ctx: JobContext, milliseconds: int) -> int:
    """Sleep, and say for how long."""
    await asyncio.sleep(milliseconds / 1000)
    return milliseconds


@job("once-stopped", timeout=600)
async def once_stopped(ctx: JobContext) -> str:
    """Far too long the first time; done at once where an earlier run left its cursor."""
    if ctx.cursor == "begun":
        return "after the restart"
    await ctx.save_cursor("begun")
    await asyncio.sleep(600)
    return "never"
