"""`why` is right for each situation of what runs or is over, and for what holds of all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from taskengine.client import TaskEngine
from taskengine.config import Config
from taskengine.errors import ExecutionNotFound
from taskengine.insight import why
from taskengine.insight.why import Explanation
from taskengine.lifecycle.operate import cancel, redrive
from taskengine.model.outcome import Ending, Outcome
from taskengine.model.registry import Registry
from taskengine.store import executions, webhooks
from taskengine.store.webhooks import NewEvent
from tests.insight.doctor_ward import Ward
from tests.insight.why_plants import Planted, Situations, check, due, failing, name_of, told
from tests.support.make import (
    CANCELLED,
    DISCARDED,
    FAILED,
    INTERRUPTED,
    ORPHANED,
    SUCCEEDED,
)

SITUATIONS = Situations()
OFF: dict[str, Any] = {"enabled": False}
case = SITUATIONS.case


# ---- running -------------------------------------------------------------------------------------


@case("running", "is running on hands for")
async def running(ward: Ward) -> int:
    claim = await ward.running()
    await ward.change(claim.id, progress=40, progress_message="day 2")
    return claim.id


@case("running.worker_gone", "which is gone: a daemon that is started takes it over")
async def worker_dead(ward: Ward) -> int:
    claim = await ward.running()
    await ward.sql("update task_workers set dead_at = now()")
    return claim.id


@case("running.worker_silent", "which has been silent for 1 h 0 min", "taskengine run")
async def worker_silent(ward: Ward) -> int:
    claim = await ward.running()
    await ward.sql("update task_workers set last_beat_at = now() - interval '1 h'")
    return claim.id


@case("running.over_time", "at its deadline: its worker settles it as timed out")
async def over_time(ward: Ward) -> int:
    claim = await ward.running()
    await ward.change(claim.id, deadline_at="sql:now() - interval '1 min'")
    return claim.id


@case("running.holds_over_time", "its body does not stop, and hands still holds it")
async def holds_over_time(ward: Ward) -> int:
    found = await over_time(ward)
    await ward.sql("update task_workers set held_over_time = $1", [found])
    return found


@case("running.aborting", "was asked to stop by anna")
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


@case("failed.orphaned", ": it was lost with its worker 3 times")
async def killed_thrice(ward: Ward) -> int:
    return (await failing(ward, ORPHANED, orphanings=2)).id


@case("failed.interrupted", ": shutdowns stopped it 20 times")
async def interrupted(ward: Ward) -> int:
    return (await failing(ward, INTERRUPTED, interruptions=19)).id


@case("failed.on_interrupt", "on_interrupt says 'fail'")
async def on_interrupt(ward: Ward) -> int:
    await ward.sql("update task_job_definitions set on_interrupt = 'fail'")
    return (await failing(ward, INTERRUPTED)).id


@case("failed.unclaimable", "could not be claimed")
async def unclaimable(ward: Ward) -> int:
    found = await due(ward)
    async with ward.parts.store.connection() as c:
        odd = "cannot be claimed: odd"
        await executions.unclaimable(c, found, odd, "hands", ward.parts.notice_queue, 15.0)
    return found


@case("cancelled.running", "as anna asked at", "taskengine executions redrive")
async def cancelled_while_it_ran(ward: Ward) -> int:
    claim = await ward.running()
    await cancel(ward.parts, [claim.id], "anna", "wrong period")
    await ward.settle(claim, CANCELLED)
    return claim.id


@case("cancelled.pending", " by anna before it ran")
async def cancelled(ward: Ward) -> int:
    found = await due(ward)
    await cancel(ward.parts, [found], "anna", "wrong period")
    return found


@case("cancelled.pending", " by anna while it waited to run again")
async def cancelled_between_attempts(ward: Ward) -> int:
    claim = await failing(ward, FAILED)
    await cancel(ward.parts, [claim.id], "anna", "wrong period")
    return claim.id


@case("failed.unverified", "its verify could not tell")
async def unverified(ward: Ward) -> int:
    unknown = Outcome(Ending.UNVERIFIED, reason="unverified", error="its verify does not know")
    return (await failing(ward, unknown)).id


@case("failed.unanswered", "its verify gave no answer")
async def unanswered(ward: Ward) -> int:
    silent = Outcome(Ending.UNANSWERED, reason="unanswered", error="verify: timed out")
    return (await failing(ward, silent, interruptions=19)).id


@case("succeeded.verified", "its job's verify found")
async def verified(ward: Ward) -> int:
    return (await failing(ward, Outcome(Ending.VERIFIED, reason="verified"))).id


@case("pending.next", "(attempt 2 of 3) is next in line")
async def redriven(ward: Ward) -> int:
    claim = await failing(ward, DISCARDED)
    await redrive(ward.parts, claim.id, "anna", from_start=False)
    return claim.id


# ---- all of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("planted", SITUATIONS, ids=name_of)
async def test_it_says_why(ward: Ward, planted: Planted) -> None:
    await check(ward, planted)


async def test_an_orphaning_is_told_beside_a_success(ward: Ward) -> None:
    found = await told(ward, await succeeded_after_a_death(ward))
    assert [each.code for each in found.also] == ["again.orphaned"]
    assert "lost with its worker once, and was begun again" in found.also[0].text
    assert [line.text.split(":")[0] for line in found.lines] == [
        "dispatched",
        "attempt 1 on hands",
        "attempt 2 on hands",
    ]


async def test_an_unknown_execution_is_not_found(ward: Ward) -> None:
    with pytest.raises(ExecutionNotFound):
        await told(ward, 10**15)


async def test_the_same_facts_give_the_same_words(ward: Ward) -> None:
    facts = await why.read(ward.parts, (await failing(ward, FAILED)).id)
    assert why.explain(facts) == why.explain(replace(facts))


async def test_a_webhooks_execution_names_its_event(ward: Ward) -> None:
    new = NewEvent("everee", "evt_1", "payment.paid", "received", b"{}", b"x", "{}", None, None)
    async with ward.parts.store.connection() as c:
        event = await webhooks.insert(c, new)
    sent = await ward.dispatch(key=f"webhook:{event}", subject=f"webhook:{event}")
    line = (await told(ward, sent.execution_id)).lines[0].text
    assert "for the webhook event evt_1 (payment.paid) of everee" in line


@pytest.mark.parametrize("subject", ["webhook:", "webhook:x", "webhook:0", "webhook:" + "9" * 40])
async def test_a_subject_that_only_looks_like_an_event_is_none(ward: Ward, subject: str) -> None:
    sent = await ward.dispatch(subject=subject)
    assert (await told(ward, sent.execution_id)).lines[0].text == "dispatched"


async def test_only_the_last_of_a_long_history_is_read(ward: Ward) -> None:
    found = await due(ward)
    await ward.sql(
        "insert into task_attempts (execution_id, attempt, fence, move, reason, by)"
        " select $1, 1, 1, 'snoozed', 'n ' || n, 'hands' from generate_series(1, 200) n",
        found,
    )
    lines = (await told(ward, found)).lines
    assert len(lines) == 52
    assert lines[1].text.startswith("150 older lines are left out")
    assert lines[-1].text.endswith("n 200")


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        (OFF, "pending.redis_off"),
        ({"url": SecretStr("redis://127.0.0.1:1/0")}, "pending.redis_away"),
    ],
)
async def test_without_redis_it_says_so(
    ward: Ward, config: Config, settings: dict[str, Any], code: str
) -> None:
    await due(ward, "first")
    found = await due(ward)
    await ward.beat_on()
    told = await _without_redis(config, found, settings)
    assert told.code == code
    assert "straight from Postgres, the oldest first: number 2 of 2 in queue" in told.headline


async def test_without_redis_a_slot_or_a_place_in_a_lane_is_waited_for_all_the_same(
    ward: Ward, config: Config
) -> None:
    found = await due(ward)
    await ward.running(key="other", orphanings=2)
    await ward.beat_on()
    await ward.sql("update task_workers set slots = 1")
    assert (await _without_redis(config, found, OFF)).code == "pending.full"
    await ward.change(found, orphanings=2)
    assert (await _without_redis(config, found, OFF)).code == "pending.lane"


async def _without_redis(config: Config, found: int, settings: dict[str, Any]) -> Explanation:
    redis = config.redis.model_copy(update=settings)
    without = config.model_copy(update={"redis": redis})
    async with TaskEngine(without, Registry()) as engine:
        return await engine.why(found)
