"""`why` is right for each pending situation planted on real stores: code, words, next step."""

from __future__ import annotations

import pytest

from taskengine.store import queues
from tests.insight.doctor_ward import OLD, Ward
from tests.insight.why_plants import Planted, Situations, check, due, failing, name_of, told
from tests.support.make import (
    FAILED,
    ORPHANED,
    SNOOZED,
    a_job,
)

SITUATIONS = Situations()
case = SITUATIONS.case


@case("pending.next", "is next in line in queue 'default'")
async def next_in_line(ward: Ward) -> int:
    return await due(ward)


@case("pending.line", "number 3 of 3 in queue 'default'; nothing of that queue has ended")
async def third(ward: Ward) -> int:
    for key in ("a", "b"):
        await due(ward, key)
    return await due(ward)


@case("pending.line", "number 2 of 2 in queue 'default', which moves at")
async def moving(ward: Ward) -> int:
    for n in range(10):
        await ward.settle(await ward.running(key=f"done {n}"))
    await due(ward, "first")
    return await due(ward)


@case("pending.line", "after 1 in 'high', served first")
async def behind_a_higher_queue(ward: Ward) -> int:
    await ward.know(a_job("urgent", queue="high"))
    await ward.dispatch("urgent")
    return await due(ward)


@case("pending.retry", "is waiting for its retry, due in")
async def retried(ward: Ward) -> int:
    return (await failing(ward, FAILED)).id


@case("pending.snoozed", "was snoozed by its own body (not yet), due in 4 min")
async def snoozed(ward: Ward) -> int:
    return (await failing(ward, SNOOZED)).id


@case("pending.early", "is not due yet: due in 3 min")
async def delayed(ward: Ward) -> int:
    return (await ward.dispatch(delay=239.0)).execution_id


@case("pending.paused", "which anna paused at", "taskengine queues resume default")
async def paused(ward: Ward) -> int:
    async with ward.parts.store.connection() as c:
        await queues.pause(c, "default", "anna", "month's end")
    return await due(ward)


@case("pending.unlisted", "waits in queue 'gone', which is not in [engine] queues")
async def unlisted(ward: Ward) -> int:
    found = await due(ward)
    await ward.change(found, queue="gone")
    return found


@case("pending.next", "is next in line")
async def broken_and_disabled(ward: Ward) -> int:
    """What is pending of such a job runs all the same."""
    found = await due(ward)
    await ward.sql("update task_job_definitions set error = 'no such queue', is_enabled = false")
    return found


@case("pending.undefined", "has no definition any more")
async def undefined(ward: Ward) -> int:
    found = await due(ward)
    await ward.sql("delete from task_job_definitions")
    return found


@case("pending.no_daemon", "no daemon runs", "taskengine run")
async def no_daemon(ward: Ward) -> int:
    await ward.sql("update task_workers set stopped_at = now()")
    return await due(ward)


@case("pending.unpolled", "no running daemon polls queue 'default'")
async def unpolled(ward: Ward) -> int:
    await ward.sql("update task_workers set queues = '{high}'")
    return await due(ward)


@case("pending.unknown_job", "knows the job 'work'")
async def unknown_job(ward: Ward) -> int:
    await ward.sql("update task_workers set jobs = '{other}'")
    return await due(ward)


@case(
    "pending.key_held", "waits for its exclusive key 'emp:7', held by execution", "taskengine why"
)
async def key_held(ward: Ward) -> int:
    await ward.dispatch(key="holder", exclusive_key="emp:7")
    reserved = await ward.reserve()
    await ward.claim(*(r.id for r in reserved))
    return (await ward.dispatch(key="waiter", exclusive_key="emp:7")).execution_id


@case("pending.key_older", "1 older execution of its exclusive key 'emp:7' before it")
async def key_older(ward: Ward) -> int:
    await ward.dispatch(key="older", exclusive_key="emp:7")
    return (await ward.dispatch(key="waiter", exclusive_key="emp:7")).execution_id


@case("pending.key_free", "which is free now: the sweep pushes it within 15 s")
async def key_free(ward: Ward) -> int:
    found = (await ward.dispatch(exclusive_key="emp:7")).execution_id
    await ward.redis("DEL", ward.parts.keys.queue("default"))
    await ward.change(found, waits_for_key=True)
    return found


@case("pending.lost", "it was lost", "taskengine rebuild-delivery --queue default")
async def lost(ward: Ward) -> int:
    return await ward.old(run_at=OLD)


@case("pending.on_its_way", "its message is on its way")
async def on_its_way(ward: Ward) -> int:
    return (await ward.insert()).id


@case("pending.put_off", "was put off for another")
async def put_off(ward: Ward) -> int:
    made = await ward.insert()
    later = made.score + 600_000_000
    await ward.parts.queues.delay([made._replace(score=later)])
    return made.id


@case("pending.redis_forgetful", "Redis has lost its memory", "taskengine rebuild-delivery")
async def forgetful(ward: Ward) -> int:
    found = await due(ward)
    await ward.redis("DEL", ward.parts.keys.epoch)
    return found


@case("pending.redis_strange", "holds a string in Redis", "taskengine rebuild-delivery --queue")
async def strange(ward: Ward) -> int:
    found = await due(ward)
    key = ward.parts.keys.queue("default")
    await ward.redis("DEL", key)
    await ward.redis("SET", key, "x")
    return found


@case("pending.next", "is next in line")
async def another_queue_is_strange(ward: Ward) -> int:
    await ward.redis("SET", ward.parts.keys.queue("high"), "x")
    return await due(ward)


@case("pending.next", "is next in line")
async def behind_a_paused_queue(ward: Ward) -> int:
    await behind_a_higher_queue(ward)
    async with ward.parts.store.connection() as c:
        await queues.pause(c, "high", "anna", None)
    await ward.sql("delete from task_executions where job = 'work'")
    await ward.redis("DEL", ward.parts.keys.queue("default"))
    return await due(ward, "again")


@case("pending.reserved", "was taken from its queue")
async def reserved(ward: Ward) -> int:
    found = await due(ward)
    await ward.reserve()
    return found


@case("pending.lane", "waits for a place in the quarantine lane: it was orphaned twice")
async def lane(ward: Ward) -> int:
    await ward.running(key="other", orphanings=2)
    found = await due(ward)
    await ward.change(found, orphanings=2)
    return found


@case("pending.full", "all 1 of 1 slot busy")
async def full(ward: Ward) -> int:
    await ward.sql("update task_workers set slots = 1")
    await ward.running(key="other")
    return await due(ward)


@pytest.mark.parametrize("planted", SITUATIONS, ids=name_of)
async def test_it_says_why(ward: Ward, planted: Planted) -> None:
    await check(ward, planted)


async def test_what_was_cut_short_is_to_be_verified_first(ward: Ward) -> None:
    await ward.beat_on()
    await ward.sql("update task_job_definitions set on_interrupt = 'verify'")
    claim = await ward.running()
    await ward.deliver(await ward.settle(claim, ORPHANED))
    found = await told(ward, claim.id)
    assert found.code == "pending.next"
    assert [each.code for each in found.also] == ["verify_first", "again.orphaned"]


async def test_what_is_broken_or_disabled_is_told_beside_its_place_in_line(ward: Ward) -> None:
    await ward.beat_on()
    found = await told(ward, await broken_and_disabled(ward))
    assert [each.code for each in found.also] == ["job.broken", "job.disabled"]
