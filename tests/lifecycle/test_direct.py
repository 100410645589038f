"""Direct mode: due rows are claimed straight from Postgres, by a daemon that never asks Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from taskengine.errors import StoreUnavailable
from taskengine.lifecycle import direct
from taskengine.lifecycle.claiming import claim_all
from taskengine.lifecycle.parts import Parts, close_parts, open_parts
from taskengine.model.execution import Claim
from taskengine.store import queues
from taskengine.store.pool import Connection
from tests.support.fake_clock import FakeClock
from tests.support.make import FAILED, Hands, Told, a_job, lose_first_reply


@asynccontextmanager
async def without_redis(parts: Parts, name: str) -> AsyncIterator[Hands]:
    """A daemon of the same database with `[redis] enabled = false`."""
    redis = parts.config.redis.model_copy(update={"enabled": False})
    config = parts.config.model_copy(update={"redis": redis})
    opened = await open_parts(config, parts.registry, parts.clock, parts.rng, "taskengine-tests")
    hands = await Hands(opened, name).join()
    yield hands
    hands.die()
    await close_parts(opened)


@pytest_asyncio.fixture
async def hands(parts: Parts) -> AsyncIterator[Hands]:
    async with without_redis(parts, "direct") as hands:
        await hands.know(a_job("work", retry_backoff=0), a_job("urgent", queue="payroll"))
        yield hands


async def claim(
    hands: Hands, n: int = 100, limits: Sequence[tuple[str, int]] = (), **more: Any
) -> list[Claim]:
    """One turn."""
    every = limits or [(name, n) for name in hands.parts.queues.names]
    jobs = more.get("jobs", hands.crew.acquirer.jobs)
    claims, _ = await hands.crew.direct.claim(every, n, hands.worker_id, jobs)
    return claims


async def ids(hands: Hands, n: int = 100, **more: Any) -> set[int]:
    return {each.id for each in await claim(hands, n, **more)}


async def many(hands: Hands, count: int, name: str = "work", **columns: Any) -> list[int]:
    """Pending executions, the oldest first."""
    made = [await hands.dispatch(name, f"{name}-{n}") for n in range(count)]
    for each in made:
        if columns:
            await hands.change(each.execution_id, **columns)
    return [each.execution_id for each in made]


# ---- what is chosen ------------------------------------------------------------------------------


async def test_the_first_queue_goes_first_and_each_has_its_limit(hands: Hands) -> None:
    work, urgent = await many(hands, 3), await many(hands, 3, "urgent")
    assert await ids(hands, 4, limits=[("payroll", 2), ("default", 4)]) == {*urgent[:2], *work[:2]}
    assert await ids(hands, 2) == {urgent[2], work[2]}


async def test_only_what_is_due_pending_and_known_and_not_in_a_paused_queue(hands: Hands) -> None:
    await hands.dispatch(delay=60.0)
    await hands.know(a_job("slow", queue="low"))
    (slow,) = await many(hands, 1, "slow")
    (running,) = await many(hands, 1)
    assert await ids(hands, jobs=["work"]) == {running}
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "low", "ann", "")
        assert await claim(hands) == []
        await queues.resume(c, "low")
    assert await ids(hands) == {slow}


async def test_of_a_long_backlog_it_goes_on_from_the_last_one_seen(hands: Hands) -> None:
    made = await many(hands, 5)
    assert await ids(hands, 2) == set(made[:2])
    late = await hands.dispatch()
    await hands.change(late.execution_id, run_at="sql:now() - interval '1 d'")
    assert await ids(hands, 2) == set(made[2:4])
    assert await ids(hands, 2) == {made[4]}  # its end is reached: from the start again
    assert await ids(hands, 2) == {late.execution_id}


async def test_a_backlog_without_end_is_looked_through_from_its_start_now_and_then(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await many(hands, 3)
    await ids(hands, 1)
    monkeypatch.setattr(direct, "_ANEW", 0.0)
    late = await hands.dispatch()
    await hands.change(late.execution_id, run_at="sql:now() - interval '1 d'")
    assert await ids(hands, 1) == {late.execution_id}
    assert await ids(hands, 2) == set(made[1:])


async def test_jobs_that_were_passed_over_are_looked_for_from_the_start(hands: Hands) -> None:
    """No thread was free for them a moment ago."""
    await hands.know(a_job("other"))
    (other,) = await many(hands, 1, "other")
    await many(hands, 3)
    await ids(hands, 2, jobs=["work"])
    assert other in await ids(hands, 1)


async def test_of_few_no_more_than_said_and_all_in_their_order(hands: Hands) -> None:
    await hands.know(a_job("plain", lambda ctx: None))
    plain, work = await many(hands, 5, "plain"), await many(hands, 3)
    few = direct.Few(["plain"], 2)
    every = [(name, 10) for name in hands.parts.queues.names]

    async def turn(n: int) -> set[int]:
        claims, _ = await hands.crew.direct.claim(every, n, hands.worker_id, ["work"], few)
        return {each.id for each in claims}

    assert await turn(1) == {plain[0]}
    assert await turn(4) == {*plain[1:3], *work[:2]}
    assert hands.crew.direct.more
    assert await turn(10) == {*plain[3:], work[2]}


# ---- how it is claimed ---------------------------------------------------------------------------


async def test_two_that_claim_at_once_share_without_overlap(hands: Hands, parts: Parts) -> None:
    made = await many(hands, 60)
    async with without_redis(parts, "second") as second:
        second.crew.acquirer.jobs = hands.crew.acquirer.jobs
        turns = [claim(each, 10) for _ in range(3) for each in (hands, second)]
        claims = [each for turn in await asyncio.gather(*turns) for each in turn]
    assert len(claims) == len({each.id for each in claims})
    rest = [each for _ in range(6) for each in await claim(hands, 20)]
    assert sorted(each.id for each in (*claims, *rest)) == made


async def test_one_with_redis_and_one_without_share_without_overlap(
    hands: Hands, parts: Parts
) -> None:
    made = await many(hands, 20)
    partner = await Hands(parts, "partner").join()
    partner.crew.acquirer.jobs = hands.crew.acquirer.jobs
    for each in made:
        await partner.dispatch(key=f"work-{made.index(each)}")  # pushes them
    reserved = await partner.reserve()
    taken = await ids(hands, 10)
    claims = await partner.crew.acquirer.claim(reserved, partner.worker_id)
    partner.die()
    assert len(reserved) == 20
    assert {each.id for each in claims} == set(made) - taken


async def test_a_lost_reply_is_repeated_by_the_ids_under_the_same_token(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await many(hands, 3)
    uses = lose_first_reply(monkeypatch, hands.parts.store)
    claims = await claim(hands, 2)
    assert [each.id for each in claims] == made[:2]
    assert len(uses) == 2
    assert len({each.token for each in claims}) == 1
    for each in claims:
        row = await hands.row(each.id)
        assert (row["claim_token"], row["fence"]) == (each.token, each.fence)
    assert (await hands.row(made[2]))["state"] == "pending"


async def test_one_that_came_to_nothing_is_repeated_by_the_ids(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another takes one of them meanwhile."""
    made = await many(hands, 3)
    real, tries = claim_all, list[Sequence[int]]()

    async def broken(c: Connection, ids: Sequence[int], *rest: Any) -> Any:
        tries.append(ids)
        if len(tries) == 1:
            raise StoreUnavailable("the connection broke")
        await hands.claim(made[0])
        return await real(c, ids, *rest)

    monkeypatch.setattr(direct, "claim_all", broken)
    assert await ids(hands, 2) == {made[1]}
    assert tries == [made[:2], made[:2]]


async def test_nothing_due_claims_nothing(hands: Hands) -> None:
    assert await claim(hands) == []
    assert hands.crew.acquirer.claiming == set()


# ---- exclusive keys, the quarantine lane ---------------------------------------------------------


async def test_waiters_of_a_key_are_marked_and_taken_when_it_is_free(hands: Hands) -> None:
    made = await many(hands, 3, exclusive_key="k")
    (plain,) = await many(hands, 1, "urgent")
    first = await claim(hands)
    assert {each.id for each in first} == {made[0], plain}
    assert await claim(hands) == []
    assert [(await hands.row(each))["waits_for_key"] for each in made[1:]] == [True, True]
    holder = next(each for each in first if each.id == made[0])
    await hands.settle(holder)
    assert await ids(hands) == {made[1]}


async def test_waiters_do_not_go_before_what_is_more_urgent(hands: Hands) -> None:
    made = await many(hands, 2, exclusive_key="k")
    (holder,) = await claim(hands)
    await claim(hands)
    await hands.settle(holder)
    urgent = await many(hands, 2, "urgent")
    assert await ids(hands, 2) == set(urgent)
    assert await ids(hands, 2) == {made[1]}


async def test_waiters_that_cannot_be_taken_here_hide_none_behind_them(hands: Hands) -> None:
    await hands.know(a_job("other"), a_job("low", queue="low"))
    for number, name in enumerate(["other", "other", "low", "low", "work"]):
        made = await hands.insert(name, f"k{number}", exclusive=f"key:{number}")
        await hands.change(made.id, waits_for_key=True)
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "low", "test", None)
    hands.crew.acquirer.paused = {"low"}
    assert await ids(hands, 2, jobs=("work", "low")) == {made.id}


async def test_what_was_orphaned_holds_up_nobody_behind_it(hands: Hands) -> None:
    orphaned = await many(hands, 5, orphanings=1)
    fine = [(await hands.dispatch(key=f"fine-{n}")).execution_id for n in range(2)]
    first = await claim(hands, 5)
    assert {each.id for each in first} == set(orphaned[:2])  # a tenth of twenty slots
    for each in first:
        hands.crew.inflight.add(hands.flight(each))
    assert await ids(hands, 5) == set(fine)


# ---- when ----------------------------------------------------------------------------------------


async def test_redis_away_for_a_while_is_direct_mode_and_each_change_is_told_once(
    parts: Parts, told: Told
) -> None:
    clock = FakeClock()
    mode = Hands(replace(parts, clock=clock)).crew.direct
    assert not mode.look()
    parts.client.away_since = clock.monotonic()
    assert not mode.look()
    await clock.advance(3.0)
    assert (mode.look(), mode.look(), mode.on) == (True, True, True)
    parts.client.away_since = None
    assert (mode.look(), mode.look()) == (False, False)
    assert [event for event, _ in told] == ["broker.direct", "broker.direct_left"]


async def test_switched_off_it_is_for_good_and_told_once(hands: Hands, told: Told) -> None:
    assert (hands.crew.direct.look(), hands.crew.direct.look()) == (True, True)
    assert [event for event, _ in told] == ["broker.off"]


async def test_switched_off_nothing_is_said_of_what_is_not_pushed(hands: Hands, told: Told) -> None:
    sent = await hands.dispatch()
    (claimed,) = await claim(hands)
    await hands.deliver(await hands.settle(claimed, FAILED))
    assert not sent.delivered
    assert told.of("execution.undelivered") == []
    assert await ids(hands) == {sent.execution_id}


async def test_one_declared_dead_claims_nothing_and_does_not_ask_at_once_again(
    hands: Hands,
) -> None:
    await many(hands, 4)
    await many(hands, 4, "urgent", exclusive_key="k")
    await hands.sql("update task_workers set dead_at = now()")
    for name, jobs in (("default", ["work"]), ("payroll", ["urgent"])):
        turn = await hands.crew.direct.claim([(name, 4)], 4, hands.worker_id, jobs)
        assert turn[0] == []
        turn = await hands.crew.direct.claim([(name, 1)], 1, hands.worker_id, jobs)
        assert turn == ([], False)
