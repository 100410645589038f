"""What runs in a guarded installation: each kind of end that writes to Postgres in its own way."""

from __future__ import annotations

import asyncio

from taskengine import JobContext, Snooze, job


@job("guarded-plain", queue="high")
async def plain(ctx: JobContext, number: int = 0) -> int:
    ctx.info("at work", number=number)
    ctx.progress(50, "half")
    await ctx.save_cursor(number)
    return number


@job("guarded-flaky", queue="default", retry_backoff=0)
async def flaky(ctx: JobContext) -> None:
    if ctx.attempt == 1:
        raise ValueError("once")


@job("guarded-sleepy", queue="low")
async def sleepy(ctx: JobContext) -> None:
    if not ctx.cursor:
        await ctx.save_cursor(1)
        raise Snooze(seconds=1)


@job("guarded-bad", queue="low", max_attempts=1)
async def bad(ctx: JobContext) -> None:
    raise ValueError("always")


@job("guarded-tick", queue="low", schedule="* * * * * *", schedule_seconds=True)
async def tick(ctx: JobContext) -> None:
    await asyncio.sleep(0)


@plain.exclusive
def one_number(number: int = 0) -> str | None:
    return f"number:{number}"
