"""The six invariants I1 to I6, each under faults. What heals each gap is in `test_gaps.py`."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from taskengine.lifecycle.dispatch import Dispatcher
from taskengine.lifecycle.operate import cancel
from taskengine.services.deliveries import Deliveries
from taskengine.services.divergence import Divergence
from taskengine.services.orphans import DeadWorkers, Reservations
from tests.support.make import (
    DISCARDED,
    FAILED,
    INTERRUPTED,
    ORPHANED,
    RELEASED,
    SNOOZED,
    SUCCEEDED,
    Hands,
    a_job,
    settled_by,
)

# ---- I1: nothing is lost -------------------------------------------------------------------------


async def test_i1_nothing_is_lost_whatever_verb_is_cut_short_or_whatever_redis_forgets(
    hands: Hands,
) -> None:
    """Two hundred executions, a crash or a lost message at every step, and then only the healers."""
    await hands.know(a_job("work", retry_backoff=0, max_attempts=100, max_orphanings=100))
    rng = random.Random(4)
    ids = [(await hands.insert(key=str(n))).id for n in range(50)]  # never pushed
    ids += [(await hands.dispatch()).execution_id for _ in range(150)]
    victim = await Hands(hands.parts, "victim").join()
    for step in range(8):
        reserved = await hands.reserve(20)
        claims = await victim.claim(*(r.id for r in reserved if rng.random() < 0.7))
        await victim.ack(*(c for c in claims if rng.random() < 0.5))
        for claim in claims:
            if rng.random() < 0.5:
                await victim.settle(claim, rng.choice([SUCCEEDED, FAILED, RELEASED, INTERRUPTED]))
        if step == 3:
            await hands.redis("DEL", hands.parts.keys.queue("default"))
    victim.die()
    await heal(hands, victim)
    hands.crew.resize(1000, 16)  # room for all that the victim orphaned: a tenth is their lane
    async with hands.working():
        await settled_by(hands, "work")
    rows = await hands.sql("select id, state from task_executions")
    assert sorted(row["id"] for row in rows) == sorted(ids)
    assert {row["state"] for row in rows} == {"succeeded"}
    assert await nothing_in_redis(hands)


async def heal(hands: Hands, victim: Hands) -> None:
    """What the loops do within a minute or so, at once."""
    await hands.silence(victim.worker_id)
    await DeadWorkers(hands.parts, hands.identity, hands.watch).tick()
    await hands.age_reservations()
    await Reservations(hands.parts).tick()
    await hands.sql("update task_executions set check_at = now() where state = 'pending'")
    await Deliveries(hands.parts, hands.identity, hands.token).tick()


async def nothing_in_redis(hands: Hands) -> bool:
    """No id in any queue, processing or delayed set."""
    depths = await hands.parts.queues.depths()
    return all(sum(depth) == 0 for depth in depths.values())


async def test_i1_nothing_is_lost_when_redis_loses_everything_while_work_runs(
    hands: Hands,
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def body(ctx: Any) -> None:
        began.set()
        await go_on.wait()

    await hands.know(a_job("work", body))
    for _ in range(40):  # twice the slots
        await hands.dispatch()
    async with hands.working():
        await began.wait()
        keys = await hands.redis("KEYS", f"{hands.parts.keys.prefix}:*")
        await hands.redis("DEL", *keys)
        await Divergence(hands.parts, hands.identity, hands.token).tick()
        go_on.set()
        await settled_by(hands, "work")
    states = Counter(r["state"] for r in await hands.sql("select state from task_executions"))
    assert states == {"succeeded": 40}


# ---- I2: one claim -------------------------------------------------------------------------------


async def test_i2_one_claim_however_many_workers_claim_it_at_once(hands: Hands) -> None:
    await hands.know(a_job())
    ids = [(await hands.dispatch()).execution_id for _ in range(20)]
    answers = await asyncio.gather(*(hands.claim(*ids) for _ in range(8)))
    owners = Counter(claim.id for claims in answers for claim in claims)
    assert owners == Counter(ids)


async def test_i2_only_the_holder_of_the_current_claim_can_settle(hands: Hands) -> None:
    """A late worker's result changes nothing, whatever it is."""
    await hands.know(a_job())
    late = await hands.running()
    await hands.settle(late, ORPHANED)
    (current,) = await hands.claim(late.id)
    before = await hands.row(late.id)
    for outcome in (SUCCEEDED, FAILED, DISCARDED, SNOOZED, INTERRUPTED, RELEASED, ORPHANED):
        assert await hands.settle(late, outcome) == []
    assert await hands.row(late.id) == before
    await hands.settle(current, SUCCEEDED._replace(result='"current"'))
    row = await hands.row(late.id)
    assert (row["state"], row["result"]) == ("succeeded", '"current"')
    assert current.fence == late.fence + 1


# ---- I3: one row per key -------------------------------------------------------------------------


async def test_i3_one_row_per_key_however_dispatches_race(hands: Hands) -> None:
    await hands.know(a_job())
    dispatchers = [Dispatcher(hands.parts) for _ in range(4)]

    async def race(dispatcher: Dispatcher) -> list[Any]:
        mine = Hands.__new__(Hands)
        mine.dispatcher = dispatcher
        return await asyncio.gather(*(mine.dispatch(key=f"k{n % 10}") for n in range(50)))

    answers = [a for each in await asyncio.gather(*map(race, dispatchers)) for a in each]
    assert len(await hands.sql("select from task_executions")) == 10
    assert sum(answer.created for answer in answers) == 10
    by_key = {(answer.key, answer.execution_id) for answer in answers}
    assert len(by_key) == 10


async def test_i3_the_same_key_of_another_job_is_another_execution(hands: Hands) -> None:
    await hands.know(a_job(), a_job("other"))
    one, two = await hands.dispatch(key="k"), await hands.dispatch("other", key="k")
    assert one.execution_id != two.execution_id
    assert one.created
    assert two.created


@pytest.mark.parametrize("outcome", [SUCCEEDED, DISCARDED], ids=lambda o: str(o.ending))
async def test_i3_a_key_is_held_after_the_end(hands: Hands, outcome: Any) -> None:
    await hands.know(a_job())
    claim = await hands.running(key="k")
    await hands.settle(claim, outcome)
    again = await hands.dispatch(key="k")
    assert (again.execution_id, again.created) == (claim.id, False)
    assert again.state == await hands.state(claim.id)


# ---- I4: a push is idempotent --------------------------------------------------------------------


async def test_i4_a_push_is_idempotent_so_no_sweep_can_multiply_work(hands: Hands) -> None:
    await hands.know(a_job())
    ids = [(await hands.dispatch(key=str(n))).execution_id for n in range(10)]
    for _ in range(3):
        await asyncio.gather(*(hands.dispatch(key=str(n)) for n in range(10)))
        await hands.sql("update task_executions set check_at = now()")
        await Deliveries(hands.parts, hands.identity, hands.token).tick()
        await Divergence(hands.parts, hands.identity, hands.token).tick()
    assert sorted(r.id for r in await hands.reserve()) == ids
    assert await hands.reserve() == []


# ---- I5: no silent no-op -------------------------------------------------------------------------


async def test_i5_a_dispatch_that_finds_its_row_unclaimed_delivers_it_again(hands: Hands) -> None:
    await hands.know(a_job())
    due = await hands.insert(key="due")
    later = await hands.insert(key="later", delay=3600.0)
    assert (await hands.dispatch(key="due")).delivered
    assert (await hands.dispatch(key="later")).delivered
    assert [await hands.at(due.id), await hands.at(later.id)] == ["queue", "delayed"]


@pytest.mark.parametrize("end", ["running", "succeeded", "failed", "cancelled"])
async def test_i5_a_dispatch_never_reports_success_over_work_in_no_queue(
    hands: Hands, end: str
) -> None:
    await hands.know(a_job())
    claim = await hands.running(key="k")
    if end == "cancelled":
        await cancel(hands.parts, [claim.id], "ann", "")
    if end != "running":
        await hands.settle(claim, SUCCEEDED if end == "succeeded" else DISCARDED)
    again = await hands.dispatch(key="k")
    assert (again.created, again.delivered, again.state) == (False, False, end)


# ---- I6: when an attempt is used -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "used"),
    [
        pytest.param(FAILED, 1, id="the body failed"),
        pytest.param(ORPHANED, 1, id="a crash"),
        pytest.param(SNOOZED, 0, id="snoozed"),
        pytest.param(INTERRUPTED, 0, id="stopped by a shutdown"),
        pytest.param(RELEASED, 0, id="never begun"),
    ],
)
async def test_i6_an_attempt_is_used_when_a_body_began_and_did_not_succeed(
    hands: Hands, outcome: Any, used: int
) -> None:
    await hands.know(a_job())
    claim = await hands.running()
    await hands.settle(claim, outcome)
    assert (await hands.row(claim.id))["attempt"] == 1 + used


async def test_i6_a_lost_reply_and_a_full_queue_use_no_attempt(hands: Hands) -> None:
    await hands.know(a_job())
    sent = await hands.dispatch()
    await hands.reserve()  # its reply lost
    await hands.age_reservations()
    await Reservations(hands.parts).tick()
    await hands.claim(sent.execution_id, token=9)  # its reply lost
    (claim,) = await hands.claim(sent.execution_id, token=9)
    assert claim.attempt == 1


async def test_i6_a_snooze_and_an_operators_pause_do_not_bring_max_attempts_nearer(
    hands: Hands,
) -> None:
    await hands.know(a_job(max_attempts=1))
    claim = await hands.running()
    for _ in range(3):
        await hands.settle(claim, SNOOZED)
        await hands.make_due(claim.id)
        claim = await hands.take_again(claim.id)
    await hands.settle(claim, SUCCEEDED)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["fence"]) == ("succeeded", 1, 4)
