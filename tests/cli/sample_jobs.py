"""Jobs that the tests of the command line dispatch."""

from __future__ import annotations

from taskengine.model.context import JobContext
from taskengine.model.function_job import job
from taskengine.model.job import BaseJob
from taskengine.model.outcome import Verdict


@job("pay", queue="payroll", max_attempts=1)
async def pay(ctx: JobContext, employee: int, price: object = None) -> None:
    ctx.log("info", "paying \x1b[31m", employee=employee)
    if employee < 0:
        raise ValueError("no such employee \x1b[2J, password=hunter2")


class Totals(BaseJob):
    """One execution a store; fires at two in the morning of each."""

    name = "totals"
    queue = "low"
    scope = "per_store"
    schedule = "0 2 * * *"
    time_zone = "store"

    async def handle(self) -> None:
        return None

    def verify(self) -> Verdict:
        return Verdict.UNKNOWN


MODULE = __name__
