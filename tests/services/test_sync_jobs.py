"""Sync jobs run in threads, as many at a time as there are."""

from __future__ import annotations

import threading
from typing import Any

from taskengine.services.promoter import Promoter
from tests.support.make import Hands, a_job, settled_by
from tests.support.until import until


async def test_sync_jobs_run_in_threads_with_the_same_context(hands: Hands) -> None:
    def body(ctx: Any) -> str:
        ctx.progress(30)
        ctx.info("in a thread")
        ctx.save_cursor({"page": 2})
        return threading.current_thread().name

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert row["state"] == "succeeded"
    assert row["result"] != f'"{threading.current_thread().name}"'
    assert (row["cursor"], row["progress"]) == ('{"page": 2}', 30)


async def test_sync_jobs_have_a_limiter_of_their_own(hands: Hands) -> None:
    most, now, lock = 0, 0, threading.Lock()
    full = threading.Event()

    def body(ctx: Any) -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
            if now == 3:
                full.set()
        full.wait(20)
        with lock:
            now -= 1

    await hands.know(a_job("work", body), a_job("quick"))
    hands.crew.threads.resize(3)
    for _ in range(8):
        await hands.dispatch()
    await hands.dispatch("quick")
    async with hands.working():
        await settled_by(hands, "quick")
        await until(full.is_set)
        await hands.sql("update task_executions set run_at = now() where state = 'pending'")
        await sweep_up(hands)
        await settled_by(hands, "work")
    assert most == 3
    attempts = await hands.sql("select max(attempt) from task_executions")
    assert attempts[0]["max"] == 1  # a full house uses no attempt


async def sweep_up(hands: Hands) -> None:
    """Promote whatever was delayed for want of a thread, until nothing is left to do."""
    hands.identity.offset += 10

    async def done() -> bool:
        await hands.sql("update task_executions set run_at = now() where state = 'pending'")
        await Promoter(hands.parts, hands.identity).tick()
        hands.crew.work.set()
        return not await hands.sql("select from task_executions where finished_at is null")

    await until(done)


async def test_without_a_free_thread_a_daemon_of_sync_jobs_only_does_not_spin(
    hands: Hands,
) -> None:
    let_go = threading.Event()

    def body(ctx: Any) -> None:
        let_go.wait(20)

    await hands.know(a_job("work", body))
    hands.crew.threads.resize(1)
    async with hands.working() as worker:
        await hands.dispatch()
        hands.crew.work.set()
        await until(lambda: hands.crew.threads.free == 0)
        second = await hands.dispatch()
        hands.crew.work.set()
        await until(lambda: len(worker._fetcher.parked) == 1)
        assert await hands.state(second.execution_id) == "pending"
        assert not await worker._fetcher.turn()
        let_go.set()
        await settled_by(hands, "work")
