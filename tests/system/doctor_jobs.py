"""What runs while the doctor looks: jobs that succeed, fail once, snooze, and share a key."""

from __future__ import annotations

import asyncio

from taskengine import JobContext, Snooze, job


@job("ward-plain", queue="default")
async def plain(ctx: JobContext) -> None:
    await asyncio.sleep(0.005)


@job("ward-flaky", queue="high", retry_backoff=0)
async def flaky(ctx: JobContext) -> None:
    if ctx.attempt == 1:
        raise ValueError("once")


@job("ward-sleepy", queue="low")
async def sleepy(ctx: JobContext) -> None:
    if not ctx.cursor:
        await ctx.save_cursor(1)
        raise Snooze(seconds=1)


@job("ward-tick", queue="low", schedule="* * * * * *", schedule_seconds=True)
async def tick(ctx: JobContext) -> None:
    return None
