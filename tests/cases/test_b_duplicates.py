"""Cases of work that was done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from taskengine.config import Heartbeat
from taskengine.lifecycle.beats import Watch
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Delivery
from taskengine.services.deliveries import Deliveries
from taskengine.services.orphans import Reservations
from taskengine.services.promoter import Promoter
from tests.support.make import INTERRUPTED, Hands, a_job
from tests.support.scheduling import NOON, World, at, scheduled
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


def test_c11_one_late_beat_is_nobodys_death() -> None:
    watch = Watch(9.0, 3.0)
    for turn, beat in enumerate((1, 2, 2, 3, 4)):  # the third one came 1.5 intervals late
        watch.observe(turn * 3.0, [(7, beat)])
        assert watch.silent() == []


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
    await world.add(scheduled("tiny", "* * * * * *", schedule_seconds=True))
    both = [world.scheduler(), world.scheduler()]
    for second in range(1, 201):
        moment = at(12, second // 60, second % 60)
        for each in both:
            await world.turn(moment, each)
        await world.end("succeeded", "tiny")
    keys = await world.keys()
    assert len(keys) == len(set(keys)) == 200


@pytest.mark.parametrize("count", [1000, 10_000])
async def test_c15_two_promoters_push_each_entry_once(hands: Hands, count: int) -> None:
    await promote_twice(hands, count)


async def test_c15_no_lock_that_runs_out_is_needed(hands: Hands) -> None:
    """Each entry is moved by one script: there is no lock to lose."""
    await promote_twice(hands, 2000)


async def test_c16_the_remover_is_the_pusher(hands: Hands) -> None:
    await promote_twice(hands, 1000)


async def promote_twice(hands: Hands, count: int) -> None:
    queues = hands.parts.queues
    for start in range(1, count + 1, 1000):
        rows = [Delivery(n, "default", n, False) for n in range(start, start + 1000)]
        await queues.delay(rows)
    promoters = [Promoter(hands.parts, hands.identity) for _ in range(2)]
    promoted = 0
    while (await queues.depths())["default"].delayed:
        await asyncio.gather(*(each.tick() for each in promoters))
        promoted += sum(int(each.last_findings.get("promoted", 0)) for each in promoters)
    assert promoted == count
    assert (await queues.depths())["default"].waiting == count


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
