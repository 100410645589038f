"""What `why` asks of Postgres is found by indexes, however long the past is."""

from __future__ import annotations

import pytest

from taskengine.store.statements import sql
from tests.support.make import Hands, a_job

# The failed ones have the lowest ids: who looks for them from the other end walks over all others.
_PAST = """
insert into task_executions (
  job, queue, idempotency_key, payload, state, finished_at, claimed_at, created_at, run_at)
select 'work', (array['payroll', 'high', 'default', 'low'])[1 + n % 4], 'h' || n, '{}',
  case when n <= 3000 then 'failed' else 'succeeded' end, t, t, t, t
from generate_series(1, 100000) n, lateral (select now() - n * interval '1 s' as t) at
"""
_HISTORY = """
insert into task_attempts (execution_id, attempt, fence, move, reason, by)
select id, 1, 1, 'retried', '', 'w' from task_executions
"""


@pytest.fixture
async def waiter(hands: Hands) -> int:
    """An execution that waits for its key, behind 100,000 of the past and two that live."""
    await hands.know(a_job("work"))
    await hands.sql(_PAST)
    await hands.sql(_HISTORY)
    await hands.dispatch(key="holder", exclusive_key="k")
    await hands.claim(*(each.id for each in await hands.reserve()))
    await hands.dispatch(key="older", exclusive_key="k")
    waiter = (await hands.dispatch(key="waiter", exclusive_key="k")).execution_id
    for table in ("task_executions", "task_attempts"):
        await hands.sql(f"analyze {table}")
    return waiter


async def test_no_statement_walks_the_past(hands: Hands, waiter: int) -> None:
    run_at = (await hands.row(waiter))["run_at"]
    asked = {
        "why/row": (waiter,),
        "why/history": (waiter, 50),
        "why/moves": (waiter,),
        "why/pace": ("default", 300.0, 2000),
        "why/running": (),
        "why/line": (["payroll", "default"], run_at, waiter, 10_000),
        "why/key": ("k", "default", run_at, waiter, 1000),
        "executions/list_unwell": ("failed", None, None, None, None, 50),
    }
    walked = {}
    async with hands.parts.store.connection() as c:
        for name, arguments in asked.items():
            lines = await c.fetch(f"explain (analyze, costs off) {sql(name)}", *arguments)
            plan = "\n".join(line[0] for line in lines)
            seen = [
                f"Seq Scan on {table}" in plan for table in ("task_executions", "task_attempts")
            ]
            if any(seen) or ("Rows Removed by Filter" in plan and name != "why/row"):
                walked[name] = plan
    assert walked == {}
