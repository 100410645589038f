"""Cases of starvation and of what piles up."""

from __future__ import annotations

import ast
import asyncio
import gc
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import taskengine
from taskengine.config.sections import Queue
from taskengine.embedded import Servers
from taskengine.errors import StoreUnavailable
from taskengine.insight import findings
from taskengine.lifecycle.parts import Parts
from taskengine.store import pool, retention, stores
from taskengine.store.pool import Store
from taskengine.store.statements import sql
from tests.support.make import Hands, a_job, settled_by
from tests.support.until import until

SOURCE = Path(taskengine.__file__).parent


def configured(parts: Parts, **sections: Any) -> Parts:
    return replace(parts, config=parts.config.model_copy(update=sections))


async def test_c80_reserved_slots_let_payroll_start_at_once(parts: Parts) -> None:
    began: list[str] = []
    let_go = asyncio.Event()

    async def body(ctx: Any) -> None:
        began.append(ctx.queue)
        await let_go.wait()

    hands = await Hands(configured(parts, queues={"payroll": Queue(reserved=1)})).join()
    hands.crew.slots = 4
    await hands.know(a_job("long", body, queue="low"), a_job("pay", body, queue="payroll"))
    for _ in range(20):
        await hands.dispatch("long")
    async with hands.working():
        await until(lambda: len(began) == 3)
        await hands.dispatch("pay")
        hands.crew.work.set()
        await until(lambda: "payroll" in began)
        assert Counter(began) == {"low": 3, "payroll": 1}
        let_go.set()
        await settled_by(hands, "long")
    hands.die()


async def test_c81_strict_order_is_kept_and_the_oldest_age_is_shown(hands: Hands) -> None:
    """Priority is strict by design: what waits below is seen by its age, and reserves are the
    remedy."""
    began: list[str] = []

    async def body(ctx: Any) -> None:
        began.append(ctx.queue)

    hands.crew.slots = 1
    for name in reversed(hands.parts.queues.names):
        await hands.know(a_job(f"in-{name}", body, queue=name))
        await hands.dispatch(f"in-{name}")
        await hands.dispatch(f"in-{name}")
    await hands.sql(
        "update task_executions set run_at = now() - interval '90 s' where queue = 'low'"
    )
    seen = {each.counts.queue: each.counts for each in await findings.read_queues(hands.parts)}
    assert 80 < (seen["low"].oldest or 0) < 600
    async with hands.working():
        await until(lambda: len(began) == 8)
    assert began == [name for name in hands.parts.queues.names for _ in range(2)]


async def test_c82_bodies_that_hold_every_connection_stop_neither_beats_nor_settlements(
    parts: Parts, servers: Servers
) -> None:
    """What a body opens by `store_db()` is of a pool of its own: 20 of them wait there for 4
    connections, and an engine with a pool of 2 beats and settles meanwhile."""
    postgres = parts.config.postgres.model_copy(update={"pool_max": 2})
    small = await Store.open(postgres, "cases")
    hands = await Hands(replace(parts, store=small)).join()

    async def body(ctx: Any) -> None:
        async with ctx.store_db() as db:
            await db.fetchval("select pg_sleep(0.3)")

    await hands.know(a_job(body=body, scope="per_store"))
    async with small.connection() as c:
        await stores.add(c, "1", "one", "UTC", servers.dsn)
    beating = asyncio.create_task(hands.heartbeat.run(lambda: None))
    try:
        await asyncio.gather(*(hands.dispatch(type_num="1") for _ in range(20)))
        async with hands.working():
            await settled_by(hands, "work")
        rows = await hands.sql("select distinct state, attempt, orphanings from task_executions")
        assert [tuple(row.values()) for row in rows] == [("succeeded", 1, 0)]
        workers = await hands.sql("select dead_at, beat from task_workers order by id")
        assert [each["dead_at"] for each in workers] == [None, None]  # before and with its heart
        assert workers[1]["beat"] > 2
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        hands.die()
        await hands.databases.close()
        await small.close()


async def test_c82_waiting_for_a_connection_has_an_end(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_ACQUIRE_SECONDS", 0.1)
    small = await Store.open(parts.config.postgres.model_copy(update={"pool_max": 2}), "cases")
    async with small.connection(), small.connection():
        with pytest.raises(StoreUnavailable):
            await small.connection().__aenter__()
    async with small.connection() as c:
        assert await c.fetchval("select 1") == 1
    await small.close()


_MANY = """
insert into task_executions
  (job, queue, idempotency_key, key_is_drawn, state, finished_at, run_at, created_at)
select 'work', 'default', 'old ' || n, true, 'succeeded', t, t, t
from generate_series(1, 50000) n, lateral (select now() - n * interval '1 min' as t) as ended
"""
_LINES = """
insert into task_execution_logs (execution_id, attempt, at, level, message)
select 1 + n % 50000, 1, now(), 'info', 'line ' || n from generate_series(1, 100000) n
"""
_LOOKS: dict[str, tuple[Any, ...]] = {
    "executions/undelivered": (["default"], 1000, 15.0),
    "executions/lock_due": (["default"], [100], [None], [None], 100, ["work"], True, True),
    "executions/over_time": (1000,),
    "executions/orphans_of": (1, 1000),
    "executions/pending_count": (["default"],),
    "executions/next_of_free_keys": (["default"], 1000, None, ""),
    "executions/get": (77,),
    "executions/list": (None, None, None, None, None, 50),
    "logs/of": (77, 100),
    "reports/queues": (86400.0,),
    "reports/unknown_jobs": (12.0,),
    "reports/unpolled": (12.0,),
    "retention/delete_drawn": (["succeeded"], 2_940_000.0, 1000),
    "retention/delete_emptied": (1.0, 1000),
}


async def test_c83_what_is_over_costs_those_that_look_nothing(hands: Hands) -> None:
    """50,000 finished executions and 100,000 lines: nobody walks through them (the figures are the
    bench's), and two that clear away at once take each row once."""
    for statement in (_MANY, _LINES, "analyze task_executions", "analyze task_execution_logs"):
        await hands.sql(statement)
    walked = {}
    async with hands.parts.store.connection() as c:
        for look, arguments in _LOOKS.items():
            plan = await c.fetchval(f"explain (format json) {sql(look)}", *arguments)
            walked[look] = list(_walks(json.loads(plan)[0]["Plan"]))
    assert walked == {look: [] for look in _LOOKS}
    gone = await asyncio.gather(*(_cleared(hands.parts) for _ in range(3)))
    assert sum(gone) == 5000
    assert len(await hands.sql("select from task_executions")) == 45_000


async def _cleared(parts: Parts) -> int:
    """What is older than 45,000 minutes, batch after batch."""
    total = 0
    async with parts.store.connection() as c:
        while count := await retention.delete_drawn(c, ["succeeded"], 2_700_030.0, 500):
            total += count
    return total


def _walks(plan: dict[str, Any]) -> Iterator[str]:
    """The big tables that the plan reads from end to end."""
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"].startswith("task_execution"):
        yield plan["Relation Name"]
    for child in plan.get("Plans", ()):
        yield from _walks(child)


async def test_c84_nothing_in_flight_is_collected(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        for _ in range(5):
            await asyncio.sleep(0.005)

    await hands.know(a_job(body=body))

    async def collect() -> None:
        while True:
            gc.collect()
            await asyncio.sleep(0.01)

    gc.collect()
    gc.freeze()  # what other tests have left need not be looked at each time
    collector = asyncio.create_task(collect())
    try:
        for _ in range(60):
            await hands.dispatch()
        async with hands.working():
            await settled_by(hands, "work")
    finally:
        gc.unfreeze()
        collector.cancel()
        await asyncio.gather(collector, return_exceptions=True)
    rows = await hands.sql("select count(*) n from task_executions where state = 'succeeded'")
    assert rows[0]["n"] == 60


def test_c84_no_task_is_created_without_somebody_who_holds_it() -> None:
    """`create_task` as a statement of its own is a task that may be collected half-way."""
    loose = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "attr", "") in ("create_task", "ensure_future")
        and getattr(getattr(node.value.func, "value", None), "id", "") != "group"
    ]
    assert loose == []


async def test_c85_five_thousand_short_jobs_leave_no_key_behind(hands: Hands) -> None:
    await hands.know(a_job())
    before = set(await hands.redis("KEYS", f"{hands.parts.keys.prefix}:*"))
    async with hands.working():
        for _ in range(10):
            await asyncio.gather(*(hands.dispatch() for _ in range(500)))
        await settled_by(hands, "work")
    after = set(await hands.redis("KEYS", f"{hands.parts.keys.prefix}:*"))
    assert after <= before
