"""Jobs of a daemon without Redis: one for each way in which work comes."""

from __future__ import annotations

from taskengine import JobContext, job


@job("plain")
async def plain(ctx: JobContext, number: int) -> int:
    return number


@job("second-time", retry_backoff=0)
async def second_time(ctx: JobContext) -> int:
    """Fails once."""
    if ctx.attempt == 1:
        raise ValueError("the first time")
    return ctx.attempt


@job("every-second", schedule="* * * * * *", schedule_seconds=True, queue="low")
async def every_second(ctx: JobContext) -> None:
    """Fired by the scheduler."""


@job("of-a-store", scope="per_store", queue="high")
async def of_a_store(ctx: JobContext) -> str | None:
    return ctx.type_num


@job("payroll-event", queue="payroll")
def payroll_event(ctx: JobContext) -> str:
    """A webhook's, in a thread."""
    return ctx.event.source
