"""The quarantine lane: what was orphaned may kill its process again, so few of it run at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskengine.lifecycle.claiming import Lanes, Why, claim_all, free_lanes
from taskengine.lifecycle.recover import bury
from taskengine.model.execution import Claim
from taskengine.services.promoter import Promoter
from tests.support.make import SUCCEEDED, Hands, Told, a_job, settled_by

SLOTS = 20  # of the tests' configuration: two in the lane of those orphaned once


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job("work", retry_backoff=0))


async def orphaned(hands: Hands, times: int, count: int = 1) -> list[int]:
    ids = []
    for _ in range(count):
        sent = await hands.dispatch()
        await hands.change(sent.execution_id, orphanings=times)
        ids.append(sent.execution_id)
    return ids


async def turn(hands: Hands) -> list[Claim]:
    """One turn of the worker; what is claimed flies from here on, its body not begun."""
    reserved = await hands.reserve()
    claims = await hands.crew.acquirer.claim(reserved, hands.worker_id)
    for claim in claims:
        hands.crew.inflight.add(hands.flight(claim))
    await hands.ack(*claims)
    await hands.crew.acquirer.put_away(reserved, claims)
    return claims


async def end(hands: Hands, claim: Claim) -> None:
    flight = hands.crew.inflight.get(claim.id)
    assert flight is not None
    flight.ended = True
    async with hands.settling():
        hands.crew.settler.put(flight, SUCCEEDED)


async def promote(hands: Hands) -> None:
    """A second has gone by."""
    for name in hands.parts.queues.names:
        await hands.parts.queues.promote(name, 2**53)


@pytest.mark.parametrize(
    ("slots", "once"), [(1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (200, 20), (5000, 500)]
)
def test_a_tenth_of_the_slots_and_one_for_those_orphaned_again(slots: int, once: int) -> None:
    assert free_lanes([], slots) == Lanes(once, 1)


async def test_only_so_many_are_claimed_the_oldest_first_and_the_rest_stays_pending(
    hands: Hands, told: Told
) -> None:
    once, again = await orphaned(hands, 1, 5), await orphaned(hands, 2, 3)
    assert {c.id for c in await turn(hands)} == {*once[:2], again[0]}
    left = [*once[2:], *again[1:]]
    for each in left:
        assert (await hands.state(each), await hands.at(each)) == ("pending", "delayed")
        assert (await hands.row(each))["deadline_at"] is None
    assert [len(fields["rows"]) for fields in told.of("executions.lane_full")] == [5]


async def test_they_are_delayed_by_one_second(hands: Hands) -> None:
    await orphaned(hands, 2, 2)
    before = await database_now(hands)
    await turn(hands)
    _, score = await hands.redis("ZRANGE", hands.parts.keys.delayed("default"), 0, -1, "WITHSCORES")
    due = float(score) / 1_000_000 - 1.0
    assert before - 0.5 <= due <= await database_now(hands) + 0.5  # the offset is measured once


async def database_now(hands: Hands) -> float:
    return float((await hands.sql("select extract(epoch from now())::float8 as now"))[0]["now"])


async def test_the_lanes_are_counted_over_the_claims_of_this_process(hands: Hands) -> None:
    ids = await orphaned(hands, 1, 4)
    (a, b) = await turn(hands)
    await promote(hands)
    assert await turn(hands) == []  # both of the lane still run
    await end(hands, a)
    await promote(hands)
    (c,) = await turn(hands)
    assert [each.id for each in (a, b, c)] == ids[:3]


async def test_neighbours_are_not_held_up(hands: Hands) -> None:
    await orphaned(hands, 1, 9)
    await turn(hands)
    await promote(hands)
    plain = (await hands.dispatch()).execution_id
    assert [c.id for c in await turn(hands)] == [plain]


async def test_each_daemon_has_lanes_of_its_own(hands: Hands) -> None:
    second = await Hands(hands.parts, "second").join()
    await orphaned(hands, 2, 2)
    assert len(await turn(hands)) == 1
    await promote(hands)
    assert len(await turn(second)) == 1
    second.die()


async def test_what_runs_and_has_ended_elsewhere_is_no_longer_counted(hands: Hands) -> None:
    claim = (await hands.running(orphanings=2))._replace(orphanings=2)
    flight = hands.flight(claim)
    assert free_lanes([flight], SLOTS) == Lanes(2, 0)
    flight.ended = True
    assert free_lanes([flight], SLOTS) == Lanes(2, 1)


async def test_a_repeat_under_the_same_token_takes_no_more_than_the_lanes(hands: Hands) -> None:
    """The reply was lost: what it had claimed runs here, so it counts."""
    ids = await orphaned(hands, 1, 3)
    async with hands.parts.store.connection() as c:
        for _ in range(2):
            claimed = await claim_all(c, ids, hands.worker_id, 9, ["work"], Lanes(2, 1))
            assert {claim.id for claim in claimed.claims} == set(ids[:2])
            assert [(each.row.id, each.why) for each in claimed.left] == [(ids[2], Why.LANE_FULL)]


async def test_inside_a_transaction_a_bad_row_undoes_only_itself(hands: Hands) -> None:
    """As in direct mode: the caller's transaction goes on, and everybody else is claimed."""
    plain = (await hands.dispatch()).execution_id
    bad = (await hands.dispatch()).execution_id
    keyed = (await hands.dispatch(exclusive_key="k")).execution_id
    await hands.sql(
        "create function refuse() returns trigger language plpgsql as "
        f"$$begin if new.id = {bad} then raise 'no'; end if; return new; end$$"
    )
    await hands.sql(
        "create trigger refuse before update on task_executions "
        "for each row execute function refuse()"
    )
    async with hands.parts.store.transaction() as c:
        claimed = await claim_all(c, [plain, bad, keyed], hands.worker_id, 9, ["work"], Lanes(1, 1))
    assert {claim.id for claim in claimed.claims} == {plain, keyed}
    assert [(each.row.id, each.why) for each in claimed.left] == [(bad, Why.BAD)]
    assert await hands.state(plain) == await hands.state(keyed) == "running"


async def test_a_keyed_one_that_finds_its_lane_full_goes_before_the_younger_of_its_key(
    hands: Hands,
) -> None:
    """The order of a key holds; the lane only makes it wait."""
    await orphaned(hands, 2)
    first = (await hands.dispatch(exclusive_key="k")).execution_id
    await hands.change(first, orphanings=2)
    younger = (await hands.dispatch(exclusive_key="k")).execution_id
    (running,) = await turn(hands)
    assert await hands.at(first) == "delayed"
    assert (await hands.row(younger))["waits_for_key"]
    await end(hands, running)
    await promote(hands)
    (keyed,) = await turn(hands)
    assert keyed.id == first
    await end(hands, keyed)
    assert [c.id for c in await turn(hands)] == [younger]


async def test_a_job_that_kills_its_process_is_quarantined_and_its_neighbours_finish(
    hands: Hands,
) -> None:
    """Three daemons die of it, one after another; what they had claimed beside it goes on."""
    bad = (await hands.dispatch(key="bad")).execution_id
    neighbours = [(await hands.dispatch()).execution_id for _ in range(5)]
    for n in range(3):
        daemon = await Hands(hands.parts, f"victim {n}").join()
        await promote(hands)
        claims = await turn(daemon)
        assert bad in {c.id for c in claims}
        daemon.die()
        await bury(hands.parts, daemon.worker_id, None, "hands")
        await hands.sql("update task_executions set run_at = now() where state = 'pending'")
    assert await hands.state(bad) == "failed"
    assert (await hands.history(bad))[-1] == "orphaned"
    turns = await asyncio.wait_for(_all(hands, neighbours), 10)
    assert turns > 1  # they were orphaned once: two at a time


async def _all(hands: Hands, ids: list[int]) -> int:
    """Turns until all of them have succeeded."""
    turns = 0
    while any([await hands.state(each) != "succeeded" for each in ids]):
        turns += 1
        await promote(hands)
        for claim in await turn(hands):
            await end(hands, claim)
    return turns


async def test_the_worker_itself_runs_them_all_by_and_by(hands: Hands) -> None:
    running, most = 0, 0

    async def body(ctx: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    await hands.know(a_job("poison", body))
    for _ in range(7):
        sent = await hands.dispatch("poison")
        await hands.change(sent.execution_id, orphanings=1)
    promoter = Promoter(hands.parts, hands.identity)
    async with hands.working():
        done = asyncio.create_task(settled_by(hands, "poison"))
        while not done.done():
            await promoter.tick()
            await asyncio.wait({done}, timeout=0.05)
        await done
    assert most <= 2
