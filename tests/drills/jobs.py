"""The jobs of the drills."""

from __future__ import annotations

import asyncio

from taskengine import JobContext, job


@job("drill-quick", queue="default")
async def quick(ctx: JobContext) -> None:
    """Nothing to do."""


@job("drill-long", queue="default", timeout=600)
async def long(ctx: JobContext, seconds: float) -> None:
    """Takes its time."""
    await asyncio.sleep(seconds)


@job("drill-killed", queue="default", timeout=600)
async def killed(ctx: JobContext) -> None:
    """Too long at its first attempt, whose worker is killed; a tenth of a second afterwards."""
    await asyncio.sleep(600 if ctx.attempt == 1 else 0.1)
