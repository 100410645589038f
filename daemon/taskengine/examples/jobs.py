"""Five small jobs, each for one thing that the engine does; written as a user would write them.

example-tick     a function, fired by a schedule of seconds
example-shelves  a class, once for each store, scheduled
example-flaky    fails twice, is tried again after 2 and 4 seconds, succeeds
example-report   a class in a thread, with progress and a cursor
example-hello    handles the events of a signed webhook
"""

from __future__ import annotations

import json
import time

from taskengine import BaseJob, JobContext, JobResult, job


@job("example-tick", schedule="*/5 * * * * *", schedule_seconds=True, missed="skip")
async def tick(ctx: JobContext) -> str:
    """Every five seconds. What a job returns is kept with its execution."""
    return f"{ctx.worker} was here"


class Shelves(BaseJob):
    """One execution for each active store, each with its own key and its own attempts."""

    name = "example-shelves"
    display_name = "Count the shelves"
    scope = "per_store"
    queue = "low"
    schedule = "*/15 * * * * *"
    schedule_seconds = True
    missed = "skip"

    async def handle(self) -> JobResult:
        shelves = self.config("shelves", default=3)  # `taskengine jobs set` changes it, no deploy
        self.info("counted", store=self.type_num, shelves=shelves)
        return JobResult.success(store=self.type_num, shelves=shelves)


@job("example-flaky", retry_backoff=2, max_attempts=3)
async def flaky(ctx: JobContext, failures: int = 2) -> str:
    """An exception is a failed attempt; the delay doubles, and the third attempt is the last."""
    if ctx.attempt <= failures:
        raise ConnectionError(f"attempt {ctx.attempt} fails on purpose")
    return f"succeeded at attempt {ctx.attempt}"


class Report(BaseJob):
    """A plain `def` runs in a thread, with the same names. A retry goes on at the cursor."""

    name = "example-report"
    display_name = "Write a report"

    def handle(self) -> JobResult:
        pages = self.payload("pages", default=10)
        for page in range(self.cursor or 0, pages):
            self.checkpoint()  # stops here when cancelled, or at a shutdown
            time.sleep(0.3)
            self.progress(100 * (page + 1) / pages, f"page {page + 1} of {pages}")
            self.save_cursor(page + 1)
        return JobResult.success(pages=pages)


@job("example-hello", queue="payroll")
async def hello(ctx: JobContext) -> str:
    """Whatever is written through `c` is committed together with "this event is processed"."""
    async with ctx.event.processing() as c:
        stored = await c.fetchval(
            "select count(*) from webhook_events where source = $1", "example"
        )
    name = json.loads(ctx.event.body)["data"]["name"]
    return f"hello {name}, event number {stored} of this source"
