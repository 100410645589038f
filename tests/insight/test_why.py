"""`why` is right for each situation planted on real stores: its code, its words, the next step."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from taskengine.errors import ExecutionNotFound
from taskengine.insight import why
from taskengine.insight.why import Explanation
from taskengine.lifecycle.operate import cancel, redrive
from taskengine.lifecycle.rebuild import remember
from taskengine.model.execution import Claim
from taskengine.model.outcome import Ending, Outcome
from taskengine.store import executions, queues
from tests.insight.doctor_ward import Ward
from tests.support.make import (
    DISCARDED,
    FAILED,
    INTERRUPTED,
    ORPHANED,
    SNOOZED,
    SUCCEEDED,
    a_job,
)

Plant = Callable[[Ward], Awaitable[int]]
Case = tuple[str, Plant, str, str]
CASES: list[Case] = []


def case(code: str, words: str, step: str = "") -> Callable[[Plant], Plant]:
    """A situation: the code it has, what its words hold, and the next step."""

    def add(plant: Plant) -> Plant:
        CASES.append((code, plant, words, step))
        return plant

    return add


async def told(ward: Ward, execution_id: int) -> Explanation:
    await ward.beat_on()
    return why.explain(await why.read(ward.parts, execution_id))


async def due(ward: Ward, key: str = "k") -> int:
    return (await ward.dispatch(key=key)).execution_id


async def failing(ward: Ward, outcome: Outcome, **columns: Any) -> Claim:
    claim = await ward.running(**columns)
    await ward.deliver(await ward.settle(claim, outcome))
    return claim


# ---- pending -------------------------------------------------------------------------------------


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


@case("pending.snoozed", "was snoozed (not yet), due in 4 min")
async def snoozed(ward: Ward) -> int:
    return (await failing(ward, SNOOZED)).id


@case("pending.early", "is not due yet: due in 3 min")
async def delayed(ward: Ward) -> int:
    return (await ward.dispatch(delay=239.0)).execution_id


@case("pending.paused", "was paused by anna", "taskengine queues resume default")
async def paused(ward: Ward) -> int:
    async with ward.parts.store.connection() as c:
        await queues.pause(c, "default", "anna", "month's end")
    return await due(ward)


@case("pending.unlisted", "waits in queue 'gone', which is not in [engine] queues")
async def unlisted(ward: Ward) -> int:
    found = await due(ward)
    await ward.change(found, queue="gone")
    return found


@case("pending.broken", "its job is skipped: no such queue")
async def broken(ward: Ward) -> int:
    await ward.sql("update task_job_definitions set error = 'no such queue'")
    return await due(ward)


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


@case("pending.key_free", "which is free: pushed within 15 s")
async def key_free(ward: Ward) -> int:
    found = (await ward.dispatch(exclusive_key="emp:7")).execution_id
    await ward.redis("DEL", ward.parts.keys.queue("default"))
    await ward.change(found, waits_for_key=True)
    return found


@case("pending.lost", "has no message in Redis", "taskengine rebuild-delivery --queue default")
async def lost(ward: Ward) -> int:
    return (await ward.insert()).id


@case("pending.redis_forgetful", "Redis has lost its memory", "taskengine rebuild-delivery")
async def forgetful(ward: Ward) -> int:
    found = await due(ward)
    await ward.redis("DEL", ward.parts.keys.epoch)
    return found


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


@case("pending.full", "all 1 slots are busy")
async def full(ward: Ward) -> int:
    await ward.sql("update task_workers set slots = 1")
    await ward.running(key="other")
    return await due(ward)


# ---- running -------------------------------------------------------------------------------------


@case("running", "is running on hands for")
async def running(ward: Ward) -> int:
    claim = await ward.running()
    await ward.change(claim.id, progress=40, progress_message="day 2")
    return claim.id


@case("running.worker_gone", "which is gone: recovery takes it over")
async def worker_dead(ward: Ward) -> int:
    claim = await ward.running()
    await ward.sql("update task_workers set dead_at = now()")
    return claim.id


@case("running.over_time", "at its deadline: recovery decides")
async def over_time(ward: Ward) -> int:
    claim = await ward.running()
    await ward.change(claim.id, deadline_at="sql:now() - interval '1 min'")
    return claim.id


@case("running.aborting", "was asked to stop")
async def aborting(ward: Ward) -> int:
    claim = await ward.running()
    await cancel(ward.parts, [claim.id], "anna", "wrong period")
    return claim.id


# ---- over ----------------------------------------------------------------------------------------


@case("succeeded", "succeeded at attempt 1 after")
async def succeeded(ward: Ward) -> int:
    claim = await ward.running()
    await ward.settle(claim, SUCCEEDED)
    return claim.id


@case("succeeded", "succeeded at attempt 2")
async def succeeded_after_a_death(ward: Ward) -> int:
    claim = await failing(ward, ORPHANED)
    await ward.settle(await ward.take_again(claim.id))
    return claim.id


@case("failed.exhausted", "its attempts are used up", "taskengine executions redrive")
async def exhausted(ward: Ward) -> int:
    return (await failing(ward, FAILED, attempt=3)).id


@case("failed.discarded", "its body said not to try again")
async def discarded(ward: Ward) -> int:
    return (await failing(ward, DISCARDED)).id


@case("failed.orphaned", "is quarantined: its worker died or hung 3 times")
async def killed_thrice(ward: Ward) -> int:
    return (await failing(ward, ORPHANED, orphanings=2)).id


@case("failed.interrupted", "is quarantined: shutdowns interrupted it 20 times")
async def interrupted(ward: Ward) -> int:
    return (await failing(ward, INTERRUPTED, interruptions=19)).id


@case("failed.on_interrupt", "on_interrupt is 'fail'")
async def on_interrupt(ward: Ward) -> int:
    await ward.sql("update task_job_definitions set on_interrupt = 'fail'")
    return (await failing(ward, INTERRUPTED)).id


@case("failed.unclaimable", "it could not be claimed")
async def unclaimable(ward: Ward) -> int:
    found = await due(ward)
    async with ward.parts.store.connection() as c:
        await executions.unclaimable(c, found, "cannot be claimed: odd", "hands")
    return found


@case("cancelled", "was cancelled by anna before it ran")
async def cancelled(ward: Ward) -> int:
    found = await due(ward)
    await cancel(ward.parts, [found], "anna", "wrong period")
    return found


@case("pending.next", "(attempt 2 of 3) is next in line")
async def redriven(ward: Ward) -> int:
    claim = await failing(ward, DISCARDED)
    await redrive(ward.parts, claim.id, "anna", from_start=False)
    return claim.id


# ---- all of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "plant", "words", "step"), CASES, ids=[plant.__name__ for _, plant, _, _ in CASES]
)
async def test_it_says_why(ward: Ward, code: str, plant: Plant, words: str, step: str) -> None:
    found = await told(ward, await plant(ward))
    assert found.code == code, found
    assert words in found.headline
    assert step in " ".join(found.steps)
    assert found.lines


def test_there_are_many_situations() -> None:
    assert len(CASES) >= 30


async def test_an_orphaning_is_told_beside_a_success(ward: Ward) -> None:
    found = await told(ward, await succeeded_after_a_death(ward))
    assert [each.code for each in found.also] == ["again.orphaned"]
    assert "orphaned once" in found.also[0].text
    assert [line.text.split(":")[0] for line in found.lines] == [
        "dispatched",
        "attempt 1 on hands",
        "attempt 2 on hands",
    ]


async def test_an_unknown_execution_is_not_found(ward: Ward) -> None:
    with pytest.raises(ExecutionNotFound):
        await told(ward, 10**15)


async def test_the_same_facts_give_the_same_words(ward: Ward) -> None:
    facts = await why.read(ward.parts, await retried(ward))
    assert why.explain(facts) == why.explain(replace(facts))
    json.dumps([facts.row.job, why.explain(facts).headline])


async def test_a_verify_that_could_not_tell_is_told(ward: Ward) -> None:
    claim = await ward.running()
    unverified = Outcome(Ending.UNVERIFIED, reason="unverified", error="its verify does not know")
    await ward.settle(claim, unverified)
    found = await told(ward, claim.id)
    assert found.code == "failed.unverified"
    assert "could not tell" in found.headline
    await remember(ward.parts)
