"""Exclusive keys: one claim a key in the whole cluster, its waiters in their order."""

from __future__ import annotations

import asyncio

import pytest

from taskengine.lifecycle.claiming import Lanes, Why, claim_all
from taskengine.lifecycle.waking import wake
from taskengine.store import executions
from taskengine.store.statements import STATEMENTS, sql
from tests.support.exclusive import KEY, end, send, three, turn
from tests.support.make import Hands, Told, lose_first_reply
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("two_jobs")


async def test_one_is_claimed_and_the_others_are_marked_their_messages_dropped(
    hands: Hands, told: Told
) -> None:
    await three(hands)
    assert [fields["count"] for fields in told.of("executions.key_taken")] == [2]


async def test_a_key_that_is_held_is_skipped_and_is_no_error(hands: Hands) -> None:
    """Or each turn would split its batch over it."""
    await send(hands)
    await turn(hands)
    late = await send(hands, queue="high")
    async with hands.parts.store.connection() as c:
        assert await executions.claim_apart(c, [late], hands.worker_id, 5, ["work"], []) == []


async def test_other_keys_and_rows_without_one_are_not_held_up(hands: Hands) -> None:
    await three(hands)
    free = await hands.dispatch()
    other = await hands.dispatch(exclusive_key="employee:8")
    assert {c.id for c in await turn(hands)} == {free.execution_id, other.execution_id}


async def test_a_key_is_the_same_whatever_the_job_and_the_queue(hands: Hands) -> None:
    await three(hands)
    await send(hands, "other", queue="high")
    assert await turn(hands) == []


async def test_two_daemons_race_for_many_keys_and_each_is_claimed_once(
    hands: Hands, second: Hands
) -> None:
    """Each holds other rows of the same 40 keys; none of them is claimed twice, or left behind."""
    for name in ("a", "b"):
        for n in range(40):
            await hands.dispatch(key=f"{name}{n}", exclusive_key=f"key:{n}")
    mine, others = await hands.reserve(40), await second.reserve(40)
    assert len(mine) == len(others) == 40
    both = await asyncio.gather(
        hands.crew.acquirer.claim(mine, hands.worker_id),
        second.crew.acquirer.claim(others, second.worker_id),
    )
    keys = [claim.exclusive_key for claims in both for claim in claims]
    assert len(keys) == len(set(keys))
    await hands.crew.acquirer.put_away(mine, both[0])
    await second.crew.acquirer.put_away(others, both[1])
    taken = {claim.exclusive_key for claim in await turn(hands)} | set(keys)
    assert len(taken) == 40


async def test_a_key_taken_but_not_committed_holds_up_no_other_key(
    hands: Hands, second: Hands
) -> None:
    """Nobody sees the holder yet; the unique index does: the batch is split, and only one refused."""
    first, late = await send(hands), await send(hands, queue="high")
    free = await hands.dispatch(exclusive_key="employee:8")
    async with hands.parts.store.transaction() as c:
        (theirs,) = await executions.claim_apart(c, [first], second.worker_id, 5, ["work"], [])
        claims = await hands.claim(late, free.execution_id)
    assert [c.id for c in claims] == [free.execution_id]
    assert await hands.claim(late) == []
    assert theirs.exclusive_key == KEY


async def test_a_key_taken_while_the_claim_waits_for_it_is_refused_by_the_unique_index(
    hands: Hands, second: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked for before the other one's commit, written after it: 23505, which means "taken"."""
    first, late = await send(hands), await send(hands, queue="high")
    patient = sql("executions/claim_apart").replace("'100ms'", "'10s'")
    monkeypatch.setitem(STATEMENTS, "executions/claim_apart", patient)
    async with hands.parts.store.transaction() as c:
        await executions.claim_apart(c, [first], second.worker_id, 5, ["work"], [])
        claiming = asyncio.create_task(left_of(hands, late))
        await until(lambda: somebody_waits(hands))
    assert await claiming == [(late, Why.KEY_TAKEN)]
    assert await hands.state(late) == "pending"


async def left_of(hands: Hands, *ids: int) -> list[tuple[int, Why]]:
    async with hands.parts.store.connection() as c:
        claimed = await claim_all(c, ids, hands.worker_id, 9, ["work"], Lanes(9, 9))
    return [(each.row.id, each.why) for each in claimed.left]


async def somebody_waits(hands: Hands) -> bool:
    return bool(
        await hands.sql("select from pg_locks where not granted and locktype = 'transactionid'")
    )


async def test_a_claim_whose_reply_was_lost_is_repeated_and_gives_the_same_rows(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both statements had committed: plain, keyed and orphaned ones come back, and no more."""
    plain = (await hands.dispatch()).execution_id
    keyed, waits = await send(hands), await send(hands)
    orphan = (await hands.dispatch()).execution_id
    await hands.change(orphan, orphanings=2)
    reserved = await hands.reserve()
    uses = lose_first_reply(monkeypatch, hands.parts.store)
    claims = await hands.crew.acquirer.claim(reserved, hands.worker_id)
    assert uses == ["done", "done"]
    assert {c.id for c in claims} == {plain, keyed, orphan}
    assert len({c.token for c in claims}) == 1
    assert await hands.state(waits) == "pending"


async def test_a_repeat_under_the_same_token_takes_no_second_one_of_the_key(hands: Hands) -> None:
    first, second = await send(hands), await send(hands)
    assert [c.id for c in await hands.claim(first, second, token=9)] == [first]
    assert [c.id for c in await hands.claim(first, second, token=9)] == [first]


async def test_waiters_of_a_queue_run_in_their_order_however_they_are_reserved(
    hands: Hands,
) -> None:
    """Two at a time: those that come later must not overtake the marked ones of an earlier turn."""
    ids = [await send(hands) for _ in range(9)]
    ran = []
    (holder,) = await turn(hands, 2)
    while True:
        ran.append(holder.id)
        await turn(hands, 2)
        await hands.settle(holder)  # its reply comes late: the next turn is there before the wake
        early = await turn(hands, 2)
        await wake(hands.parts, [KEY])
        claims = early or await turn(hands, 2)
        if not claims:
            break
        (holder,) = claims
    assert ran == ids


async def test_a_waiter_behind_one_that_no_daemon_here_knows_goes_on(hands: Hands) -> None:
    """Its class is deployed nowhere: that is an alert for it, not the end of its neighbours."""
    holder, first, second = await three(hands)
    await hands.change(first, job="other")
    hands.crew.acquirer.jobs = ("work",)
    await end(hands, holder)
    assert [c.id for c in await turn(hands)] == []  # the unknown one goes away, and wakes the next
    assert await hands.at(first) == "delayed"
    assert [c.id for c in await turn(hands)] == [second]
