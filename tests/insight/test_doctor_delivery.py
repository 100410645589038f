"""Planted: where Redis and Postgres do not say the same. Found by code, mended, and then nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskengine.insight import divergence
from taskengine.insight.divergence import CLASSES
from taskengine.telemetry.metrics.gauges import DIVERGENCES
from tests.insight.doctor_ward import OLD, Ward
from tests.support.make import SUCCEEDED, a_job


def test_the_gauges_have_the_same_classes() -> None:
    assert DIVERGENCES == CLASSES


# ---- a system that is well -----------------------------------------------------------------------


async def test_nothing_is_found_where_nothing_is_wrong(ward: Ward) -> None:
    assert await ward.found() == []


async def test_nothing_is_found_in_each_place_where_work_may_be(ward: Ward) -> None:
    """Waiting, reserved, running, retried, delayed, done, cancelled, marked; fresh and on its way."""
    await ward.dispatch()
    await ward.dispatch(delay=600)
    reserved = await ward.dispatch()
    await ward.reserve(1)
    assert reserved.execution_id
    running = await ward.running()
    await ward.settle(await ward.running(), SUCCEEDED)
    await ward.insert(key="fresh: its push is on its way")
    cancelled = await ward.dispatch(delay=600)
    await ward.sql(
        "update task_executions set state = 'cancelled', finished_at = now() where id = $1",
        cancelled.execution_id,
    )
    await ward.old("waiter", exclusive_key="k", waits_for_key=True)
    await ward.change(running.id, exclusive_key="k")
    assert await ward.found() == []


async def test_nothing_is_found_while_work_goes_on(ward: Ward) -> None:
    """A worker works, dispatches come: four examinations in a row see nothing but a living system."""

    async def body(ctx: Any) -> None:
        await asyncio.sleep(0.002)

    await ward.well(a_job("busy", body), a_job("again", body, queue="high"))
    busy = True

    async def dispatching() -> None:
        while busy:
            await asyncio.gather(*(ward.dispatch("busy") for _ in range(20)))
            await asyncio.gather(*(ward.dispatch("again", delay=0.05) for _ in range(5)))

    async with ward.working():
        task = asyncio.create_task(dispatching())
        try:
            for _ in range(4):
                assert await ward.found() == []
        finally:
            busy = False
            await task
        assert ward.crew.inflight is not None


async def test_what_is_seen_once_and_not_again_is_not_found(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another row each time: never the same one twice."""
    await ward.old("a")
    sleep = ward.parts.clock.sleep

    async def delivered_in_between(seconds: float) -> None:
        await ward.dispatch(key="a")
        await ward.old("b")
        await sleep(seconds)

    monkeypatch.setattr(type(ward.parts.clock), "sleep", lambda _, s: delivered_in_between(s))
    assert await ward.found() == []


# ---- the classes ---------------------------------------------------------------------------------


async def test_pending_without_message(ward: Ward) -> None:
    due, later = await ward.old("due"), await ward.old("later", delay=600.0)
    found = await ward.only("delivery.pending_without_message")
    assert (found.about, found.count, sorted(found.ids)) == ("default", 2, [due, later])
    assert found.command == "taskengine doctor --fix"
    await ward.mended("delivery.pending_without_message")
    assert (await ward.at(due), await ward.at(later)) == ("queue", "delayed")


async def test_pending_without_message_more_than_is_looked_at(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divergence, "MOST", 3)
    await ward.sql(
        "insert into task_executions (job, queue, idempotency_key, created_at, run_at)"
        " select 'work', 'default', 'k' || n, now() - interval '1 h', now() - n * interval '1 s'"
        " from generate_series(1, 10) n"
    )
    found = await ward.only("delivery.pending_without_message")
    assert found.text.startswith("at least 3 executions")
    assert "10 delivered" in ((await ward.mended(found.code)).did or "")


async def test_pending_without_message_leaves_out_fresh_held_and_marked(ward: Ward) -> None:
    await ward.insert(key="fresh")
    await ward.old("given back a moment ago", claimed_at="sql:now()")
    await ward.old("marked", exclusive_key="held", waits_for_key=True)
    await ward.change((await ward.running()).id, exclusive_key="held")
    assert await ward.found() == []


@pytest.mark.parametrize("kind", ["queue", "delayed"])
async def test_message_without_row(ward: Ward, kind: str) -> None:
    key = getattr(ward.parts.keys, kind)("high")
    far = 4_000_000_000_000_000
    await ward.redis("ZADD", key, far, 999_999, far, "no id at all")
    found = await ward.only("delivery.message_without_row")
    assert (found.about, found.count) == ("high", 2)
    await ward.mended("delivery.message_without_row")
    assert await ward.redis("EXISTS", key) == 0


async def test_message_of_an_execution_that_is_over(ward: Ward) -> None:
    claim = await ward.running()
    await ward.settle(claim, SUCCEEDED)
    await ward.redis("ZADD", ward.parts.keys.queue("default"), 1, claim.id)
    await ward.mended("delivery.message_without_row")


async def test_processing_without_owner(ward: Ward) -> None:
    sent = await ward.dispatch()
    await ward.reserve()
    await ward.age_reservations()
    found = await ward.only("delivery.processing_without_owner")
    assert found.ids == [sent.execution_id]
    await ward.mended("delivery.processing_without_owner")
    assert await ward.at(sent.execution_id) == "queue"


async def test_delayed_past_due(ward: Ward) -> None:
    sent = await ward.dispatch(delay=600)
    await ward.change(sent.execution_id, run_at=OLD)
    await ward.redis("ZADD", ward.parts.keys.delayed("default"), 1_000, sent.execution_id)
    await ward.mended("delivery.delayed_past_due")
    assert await ward.at(sent.execution_id) == "queue"


async def test_a_key_without_holder_whose_next_has_no_message(ward: Ward) -> None:
    first = await ward.old("a", exclusive_key="k", waits_for_key=True, run_at=OLD)
    await ward.old("b", exclusive_key="k", waits_for_key=True, run_at=OLD)
    found = await ward.only("key.unheld")
    assert found.ids == [first]
    await ward.mended("key.unheld")
    assert await ward.at(first) == "queue"
