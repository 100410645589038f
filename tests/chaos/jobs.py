"""The jobs of the load: each journals that its body began and how it ended."""

from __future__ import annotations

import asyncio
import time

from taskengine import BaseJob, Discard, JobContext, Snooze, Verdict, job
from tests.chaos.journal import body, effect, write

_OLD = 3.0  # seconds after which an effect was there before this claim, whoever is late


@job("quick", retry_backoff=1, max_orphanings=20)
async def quick(ctx: JobContext, milliseconds: int) -> int:
    """What most are."""
    with body(ctx):
        await asyncio.sleep(milliseconds / 1000)
        return milliseconds


@job("urgent", queue="payroll", retry_backoff=1, max_orphanings=20)
async def urgent(ctx: JobContext, milliseconds: int) -> None:
    """The same in the first queue."""
    with body(ctx):
        await asyncio.sleep(milliseconds / 1000)


@job("flaky", queue="high", retry_backoff=1, max_attempts=4, max_orphanings=20)
async def flaky(ctx: JobContext, failures: int, final: bool) -> None:
    """Fails so many times; `final`: then says that it is not to be tried again."""
    with body(ctx):
        await asyncio.sleep(0.01)
        if ctx.attempt <= failures:
            raise RuntimeError(f"failure {ctx.attempt} of {failures}")
        if final:
            raise Discard("not to be tried again")


@job("sleepy", queue="low", retry_backoff=1, max_orphanings=20)
async def sleepy(ctx: JobContext) -> None:
    """Not yet, the first time."""
    with body(ctx):
        if ctx.cursor is None:
            await ctx.save_cursor("snoozed")
            raise Snooze(seconds=1, reason="too early")


@job("threaded", queue="low", retry_backoff=1, max_orphanings=20)
def threaded(ctx: JobContext, milliseconds: int) -> int:
    """A plain function, in a thread."""
    with body(ctx):
        time.sleep(milliseconds / 1000)
        ctx.check_abort()
        return milliseconds


@job("long", queue="low", retry_backoff=1, max_orphanings=20)
async def long(ctx: JobContext, steps: int) -> int:
    """Goes on where it was, shows how far it is, heeds whoever asks it to stop."""
    with body(ctx):
        for step in range(ctx.cursor or 0, steps):
            ctx.checkpoint()
            ctx.progress(100 * step / steps, f"step {step}")
            ctx.info("a step", step=step)
            await asyncio.sleep(0.3)
            await ctx.save_cursor(step + 1)
        return steps


@job("alone", queue="high", retry_backoff=1, max_orphanings=20)
async def alone(ctx: JobContext, name: str, milliseconds: int) -> None:
    """At most one claim for each name."""
    with body(ctx):
        await asyncio.sleep(milliseconds / 1000)


@alone.exclusive
def _key(name: str, milliseconds: int) -> str:
    return f"alone:{name}"


@job("sure", queue="payroll", retry_backoff=1, max_orphanings=20, on_interrupt="verify")
async def sure(ctx: JobContext) -> None:
    """An effect outside, by which `verify` knows whether it was done."""
    with body(ctx):
        done = effect(ctx)
        if done.exists() and time.time() - done.stat().st_mtime > _OLD:
            write("wrong", ctx.execution_id, ctx.fence, "run again after its effect")
        await asyncio.sleep(0.1)
        done.touch()
        await asyncio.sleep(0.3)


@sure.verify
async def _was_done(ctx: JobContext) -> Verdict:
    return Verdict.DONE if effect(ctx).exists() else Verdict.NOT_DONE


class Shelves(BaseJob):
    """One for each store."""

    name = "shelves"
    scope = "per_store"
    retry_backoff = 1
    max_orphanings = 20

    async def handle(self) -> str:
        with body(self.context):
            await asyncio.sleep(0.02)
            return str(self.type_num)


@job("hook", queue="payroll", retry_backoff=1, max_attempts=100, max_orphanings=20)
async def hook(ctx: JobContext) -> None:
    """A webhook's effect: one row in the transaction that marks the event as processed."""
    with body(ctx):
        async with ctx.event.processing() as c:
            await c.execute(
                "insert into chaos.effects values ($1, $2)", ctx.event.id, ctx.execution_id
            )


@job("tick", schedule="*/5 * * * * *", schedule_seconds=True, missed="all", max_orphanings=20)
async def tick(ctx: JobContext) -> None:
    """Every five seconds, none left out."""
    with body(ctx):
        await asyncio.sleep(0.01)


@job(
    "tock",
    schedule="*/10 * * * * *",
    schedule_seconds=True,
    scope="per_store",
    missed="latest",
    max_orphanings=20,
)
async def tock(ctx: JobContext) -> None:
    """Every ten seconds for each store; after an outage the latest, the others kept as missed."""
    with body(ctx):
        await asyncio.sleep(0.01)
