"""Cases of work that was done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from taskengine.config import Heartbeat
from taskengine.lifecycle.dispatch import Request
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Delivery
from taskengine.services.deliveries import Deliveries
from taskengine.services.orphans import Reservations
from taskengine.services.promoter import Promoter
from tests.cases import case_jobs as jobs
from tests.cases.support import Ground
from tests.support.make import INTERRUPTED, Hands, a_job, settled_by
from tests.support.scheduling import NOON, World, at, scheduled
from tests.support.until import until
from tests.support.webhooks import event, register, serving, with_sources


@pytest.fixture
def world(parts: Parts) -> Iterator[World]:
    world = World(parts)
    yield world
    world.close()


@pytest.mark.parametrize("lease", [1.0, 3.0, 8.9])
def test_c11_a_lease_of_fewer_than_three_beats_is_refused(lease: float) -> None:
    with pytest.raises(ValueError, match="at least 3 x beat"):
        Heartbeat(beat=3.0, lease=lease)
    assert Heartbeat(beat=3.0, lease=9.0)


@pytest.mark.slow
async def test_c11_one_late_beat_is_nobodys_death(ground: Ground) -> None:
    """A lease of just three beats, and the database busy with one's row for 1.5 of them, while
    another daemon watches."""
    beats = {"beat": 1.0, "lease": 3.0}
    ground.daemon(heartbeat=beats)
    await ground.engine.dispatch(jobs.slow.call(seconds=6))
    await ground.until_count("state = 'running'", 1)
    ground.daemon(heartbeat=beats)
    living = "select from task_workers where beat > 1"
    await until(lambda: _so_many(ground, living, 2))
    async with ground.parts.store.transaction() as c:
        await c.execute("select from task_workers order by id limit 1 for update")
        await asyncio.sleep(1.5)
    await ground.until_count("state = 'succeeded'", 1)
    assert await ground.count("attempt = 1 and orphanings = 0 and fence = 1") == 1
    assert await ground.sql("select from task_workers where dead_at is not null") == []


async def _so_many(ground: Ground, statement: str, count: int) -> bool:
    return len(await ground.sql(statement)) == count


async def test_c12_what_is_reserved_and_not_yet_claimed_is_left_alone_by_the_sweeps(
    hands: Hands,
) -> None:
    await hands.know(a_job())
    sent = await hands.dispatch()
    reserved = await hands.reserve()
    await hands.sql("update task_executions set check_at = now()")
    await Reservations(hands.parts).tick()
    await Deliveries(hands.parts, hands.identity, hands.token).tick()
    claims = await hands.claim(*(r.id for r in reserved))
    await hands.ack(*claims)
    await hands.settle(claims[0])
    assert await hands.state(sent.execution_id) == "succeeded"
    again = await hands.reserve()  # the sweep may have pushed it again: harmless
    assert await hands.claim(*(r.id for r in again)) == []
    assert (await hands.row(sent.execution_id))["fence"] == 1


async def test_c14_two_schedulers_over_200_slots_of_a_short_job(world: World) -> None:
    """The run is over before the second one looks, and to that one the slot seems still to come:
    only the key is left to stop it."""
    await world.add(scheduled("tiny", "* * * * * *", schedule_seconds=True, missed="skip"))
    first, second = world.scheduler(), world.scheduler()
    for number in range(1, 201):
        moment = at(12, number // 60, number % 60)
        await world.turn(moment, first)
        await world.end("succeeded", "tiny")
        before = moment - timedelta(seconds=1)
        await world.sql("update task_job_definitions set fired_until = $1", before)
        await world.turn(moment, second)
    keys = await world.keys()
    assert len(keys) == len(set(keys)) == 200
    assert await world.sql("select from task_executions where state <> 'succeeded'") == []


async def test_c15_two_promoters_push_each_entry_once(hands: Hands) -> None:
    assert await promote_twice(hands, 10_000) == 10_000


async def test_c15_no_lock_that_runs_out_is_needed(hands: Hands) -> None:
    """Each entry is moved by one script: on a Redis that answers a second late there is no lock to
    lose."""
    await hands.redis("CLIENT", "PAUSE", 1200, "WRITE")
    assert await promote_twice(hands, 2000) == 2000
    left = {key.decode() for key in await hands.redis("KEYS", f"{hands.parts.keys.prefix}:*")}
    assert left == {hands.parts.keys.queue("default"), hands.parts.keys.epoch}


async def test_c16_the_remover_is_the_pusher(hands: Hands) -> None:
    """Whatever is pushed is run meanwhile, so one that is pushed again would run again."""
    begun: list[int] = []

    async def body(ctx: Any) -> None:
        begun.append(ctx.execution_id)

    await hands.know(a_job(body=body))
    await hands.dispatcher.dispatch_many([Request("work", delay=0.3) for _ in range(1000)])
    await hands.beat()
    async with hands.working():
        promoted = 0
        while len(begun) < 1000:
            promoted += await promote(hands)
        await settled_by(hands, "work")
    assert promoted == 1000
    assert len(set(begun)) == len(begun) == 1000


async def promote_twice(hands: Hands, count: int) -> int:
    """How many two promoters say to have pushed of so many due entries."""
    queues = hands.parts.queues
    for start in range(1, count + 1, 1000):
        rows = [Delivery(n, "default", n, False) for n in range(start, start + 1000)]
        await queues.delay(rows)
    promoted = 0
    while (await queues.depths())["default"].delayed:
        promoted += await promote(hands)
    assert (await queues.depths())["default"].waiting == count
    return promoted


async def promote(hands: Hands) -> int:
    """Two promoters at once."""
    both = [Promoter(hands.parts, hands.identity) for _ in range(2)]
    await asyncio.gather(*(each.tick() for each in both))
    return sum(int(each.last_findings["promoted"]) for each in both)


async def test_c17_a_slot_that_ran_does_not_run_again_where_the_next_one_was_not_stored(
    world: World,
) -> None:
    await world.add(scheduled("totals", missed="all"))
    await world.turn(at(12, 1))
    await world.end("succeeded", "totals")
    await world.sql("update task_job_definitions set fired_until = $1", NOON)
    await world.turn(at(12, 1, 30), world.scheduler())
    assert len(await world.keys()) == 1


async def test_c18_three_restarts_within_a_minute_fire_it_once(world: World) -> None:
    await world.add(scheduled("totals"))
    for second in (0, 15, 30, 45):
        await world.turn(at(12, 1, second), world.scheduler())
    assert await world.keys() == ["totals:2026-11-02T12:01:00Z"]


async def test_c20_a_leftover_entry_of_what_has_ended_is_only_removed(hands: Hands) -> None:
    await hands.know(a_job())
    sent = await hands.dispatch()
    await hands.reserve()
    (claim,) = await hands.claim(sent.execution_id)
    await hands.settle(claim)  # and the ack was lost
    await hands.age_reservations()
    await Reservations(hands.parts).tick()
    reserved = await hands.reserve()
    assert [r.id for r in reserved] == [sent.execution_id]
    assert await hands.claim(sent.execution_id) == []
    await hands.crew.acquirer.put_away(reserved, [])
    assert await hands.at(sent.execution_id) is None
    assert await hands.state(sent.execution_id) == "succeeded"
    assert await hands.sql("select from task_attempts") == []
    assert len(await hands.sql("select from task_executions")) == 1, "no notice"


async def test_c21_a_stop_between_the_execution_and_its_events_mark_is_one_execution(
    parts: Parts,
) -> None:
    through = replace(parts, config=with_sources(parts.config))
    hands = await Hands(through).join()
    await hands.know(a_job("payroll-event", queue="payroll"))
    await register(through)
    async with serving(through) as site:
        assert (await site.post(event())).status_code == 200
        (row,) = await hands.sql("select id from task_executions")
        claim = await hands.take(row["id"])
        await hands.deliver(await hands.settle(claim, INTERRUPTED))
        assert (await site.post(event())).status_code == 200, "the sender repeats it"
        again = await hands.take(row["id"])
        async with hands.settling():
            hands.fly(again)
        (stored,) = await hands.sql("select processed_at from webhook_events")
        assert stored["processed_at"] is not None
        assert len(await hands.sql("select from task_executions")) == 1
        assert again.attempt == 1
    hands.die()
