"""What a daemon runs while it is scraped: one that succeeds, one that fails, one by schedule."""

from __future__ import annotations

from taskengine import JobContext, job


@job("watched-good", queue="high")
async def good(ctx: JobContext) -> None:
    return None


@job("watched-bad", queue="low", max_attempts=1)
async def bad(ctx: JobContext) -> None:
    raise ValueError("always")


@job("watched-tick", queue="low", schedule="0 3 * * *")
async def tick(ctx: JobContext) -> None:
    return None
