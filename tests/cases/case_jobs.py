"""What the daemons of the cases run; and where they die, if they are told to.

Loaded by a real daemon. Every body writes a line "<execution> <attempt> <fence>" when it begins.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taskengine import JobContext, job
from taskengine.lifecycle.acquire import Acquirer
from taskengine.lifecycle.settle import Settler
from taskengine.store import executions


def begun(ctx: JobContext) -> None:
    """One write, so that lines of several processes never mix."""
    with Path(os.environ["CASE_RUNS"]).open("ab", buffering=0) as file:
        file.write(f"{ctx.execution_id} {ctx.attempt} {ctx.fence}\n".encode())


@job("quick", retry_backoff=1)
async def quick(ctx: JobContext) -> None:
    """Done at once."""
    begun(ctx)


@job("slow", timeout=600)
async def slow(ctx: JobContext, seconds: float) -> None:
    """Takes so long."""
    begun(ctx)
    await asyncio.sleep(seconds)


@job("long-at-first", timeout=600)
async def long_at_first(ctx: JobContext) -> None:
    """Far too long in its first run, unless it is asked to stop; done at once in any later one."""
    begun(ctx)
    while ctx.fence == 1:
        ctx.checkpoint()
        await asyncio.sleep(0.02)


@job("endless", timeout=600)
async def endless(ctx: JobContext) -> None:
    """Until it is asked to stop."""
    begun(ctx)
    while True:
        ctx.checkpoint()
        await asyncio.sleep(0.02)


@job("stuck-thread", timeout=600)
def stuck_thread(ctx: JobContext) -> None:
    """A thread that does not look up in its first run; done at once in any later one."""
    begun(ctx)
    if ctx.fence == 1:
        time.sleep(600)


@job("swallows-cancel", timeout=600)
async def swallows_cancel(ctx: JobContext) -> None:
    """Will not be stopped in its first run; done at once in any later one."""
    begun(ctx)
    while ctx.fence == 1:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


@job("holds-a-connection", timeout=600)
async def holds_a_connection(ctx: JobContext) -> None:
    """In a query of ten minutes, on a connection of the engine's pool."""
    begun(ctx)
    async with ctx._backstage._parts.store.connection() as c:  # type: ignore[attr-defined]
        await c.fetchval("select pg_sleep(600)")


@job("each-second", schedule="* * * * * *", schedule_seconds=True, is_enabled=False)
async def each_second(ctx: JobContext) -> None:
    """Where a case enables it."""
    begun(ctx)


@job("each-minute", schedule="* * * * *", is_enabled=False)
async def each_minute(ctx: JobContext) -> None:
    """Where a case enables it."""
    begun(ctx)


# ---- dying ---------------------------------------------------------------------------------------

DEATHS: dict[str, tuple[Any, str, bool]] = {
    "reserved": (Acquirer, "claim", False),
    "claimed": (Acquirer, "claim", True),
    "begun": (Acquirer, "ack", False),
    "acknowledged": (Acquirer, "ack", True),
    "ended": (Settler, "_write", False),
    "settled": (Settler, "_write", True),
    "advanced": (executions, "insert", False),
    "inserted": (executions, "insert", True),
}
"""Point → (where, what, whether just after it): SIGKILL, as the operating system does it."""


def _dying(real: Callable[..., Any], after: bool) -> Callable[..., Any]:
    async def step(*args: Any, **named: Any) -> Any:
        if after:
            await real(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return step


def _arm(point: str) -> None:
    place, name, after = DEATHS[point]
    setattr(place, name, _dying(getattr(place, name), after))


if os.environ.get("CASE_DIES_AT"):
    _arm(os.environ["CASE_DIES_AT"])
