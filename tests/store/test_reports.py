"""What the database holds, counted right, and without reading its history."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from taskengine.lifecycle.parts import Parts
from taskengine.store import queues, reports, webhooks
from taskengine.store.statements import sql
from taskengine.store.webhooks import NewEvent
from tests.support.make import FAILED, Hands, a_job

_SILENCE = 60.0
_HISTORY = """
insert into task_executions (
  job, queue, idempotency_key, payload, state, finished_at, claimed_at, created_at, run_at)
select 'work', (array['payroll', 'high', 'default', 'low'])[1 + n % 4], 'h' || n, '{}',
  case when n % 200 = 0 then 'failed' else 'succeeded' end, t, t, t, t
from generate_series(1, 100000) n, lateral (select now() - n * interval '1 min' as t) at
"""


@pytest.fixture
async def world(hands: Hands) -> Hands:
    await hands.know(
        a_job("work", queue="high", max_attempts=1), a_job("rare", queue="low", max_attempts=1)
    )
    await hands.sql("update task_workers set jobs = '{work,rare}'")
    return hands


async def _queues(world: Hands) -> dict[str, reports.QueueCounts]:
    async with world.parts.store.connection() as c:
        return {each.queue: each for each in await reports.queues(c)}


async def test_each_kind_is_counted_in_its_queue(world: Hands) -> None:
    old = await world.dispatch()
    await world.change(old.execution_id, run_at="sql:now() - interval '90 s'")
    await world.dispatch()
    await world.dispatch(delay=600)
    running = await world.running("rare")
    for age in ("1 h", "25 h"):
        failed = await world.running("rare")
        await world.settle(failed, FAILED)
        await world.change(failed.id, finished_at=f"sql:now() - interval '{age}'")
    found = await _queues(world)
    high, low = found["high"], found["low"]
    assert high[1:5] == (2, 2, 0, 0)  # a notice of the failures is among the delayed
    assert 90 <= (high.oldest or 0) < 150
    assert low == reports.QueueCounts("low", 0, 0, 1, 1, None)
    assert running.queue == "low"


async def test_queues_that_are_listed_nowhere_are_counted_too(world: Hands) -> None:
    sent = await world.dispatch()
    await world.change(sent.execution_id, queue="gone")
    assert (await _queues(world))["gone"].waiting == 1


@dataclass(frozen=True)
class _Neglect:
    unknown: list[str]
    unpolled: list[str]


async def _neglected(world: Hands) -> _Neglect:
    async with world.parts.store.connection() as c:
        return _Neglect(
            [each.name for each in await reports.unknown_jobs(c, _SILENCE)],
            [each.name for each in await reports.unpolled(c, _SILENCE)],
        )


@pytest.mark.parametrize(
    "worker",
    [
        "stopped_at = now()",
        "dead_at = now()",
        "draining = true",
        "last_beat_at = now() - interval '61 s'",
        "jobs = '{other}', queues = '{other}'",
    ],
)
async def test_due_work_that_nobody_can_run_is_found(world: Hands, worker: str) -> None:
    await world.dispatch()
    await world.dispatch("rare", delay=600)
    assert await _neglected(world) == _Neglect([], [])
    await world.sql(f"update task_workers set {worker}")
    assert await _neglected(world) == _Neglect(["work"], ["high"])


async def test_a_paused_queue_is_not_neglected(world: Hands) -> None:
    await world.dispatch()
    await world.sql("update task_workers set queues = '{low}'")
    async with world.parts.store.connection() as c:
        await queues.pause(c, "high", "me", None)
    assert await _neglected(world) == _Neglect([], [])


async def test_failed_ones_that_can_run_again_the_oldest_first(world: Hands) -> None:
    ids = []
    for name in ("work", "rare", "work", "work"):
        claim = await world.running(name)
        await world.settle(claim, FAILED)
        ids.append(claim.id)
    await world.change(ids[0], emptied_at="sql:now()")
    async with world.parts.store.connection() as c:
        assert await reports.failed(c, None, 10) == ids[1:]
        assert await reports.failed(c, "work", 10) == ids[2:]
        assert await reports.failed(c, None, 1) == ids[1:2]


async def test_stranded_events_are_those_that_are_nobodys_work(world: Hands) -> None:
    ids = []
    async with world.parts.store.connection() as c:
        for name in "abcd":
            new = NewEvent("everee", name, None, "received", b"{}", b"x", "{}", None, None)
            ids.append(await webhooks.insert(c, new))
        await c.execute(
            "update webhook_events set received_at = now() - interval '1 h' where id <> $1", ids[0]
        )
        await c.execute("update webhook_events set processed_at = now() where id = $1", ids[1])
    await world.dispatch(subject=f"webhook:{ids[2]}")
    async with world.parts.store.connection() as c:
        (counts,) = await reports.webhooks(c, 300.0)
    assert counts[:3] == ("everee", 3, 1)
    assert 3600 <= counts.oldest < 3660


# ---- plans ---------------------------------------------------------------------------------------


@pytest.fixture
async def history(parts: Parts, world: Hands) -> Parts:
    """100,000 executions of the past, some of which failed, and a few that live."""
    await world.sql(_HISTORY)
    for _ in range(5):
        await world.dispatch()
    await world.running("rare")
    await world.sql("analyze task_executions")
    return parts


@pytest.mark.parametrize(
    ("statement", "arguments"),
    [
        ("reports/queues", (86_400.0,)),
        ("reports/unknown_jobs", (_SILENCE,)),
        ("reports/unpolled", (_SILENCE,)),
        ("reports/webhooks", (300.0,)),
        ("reports/failed", (None, 100)),
    ],
)
async def test_history_is_not_read(
    history: Parts, statement: str, arguments: tuple[object, ...]
) -> None:
    async with history.store.connection() as c:
        lines = await c.fetch(f"explain (analyze, costs off) {sql(statement)}", *arguments)
    plan = "\n".join(line[0] for line in lines)
    assert "Seq Scan on task_executions" not in plan
    assert "task_executions" in plan
