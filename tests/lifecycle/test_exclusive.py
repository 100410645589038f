"""Exclusive keys: one claim a key in the whole cluster, its waiters in their order, nobody forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import pytest_asyncio

from taskengine.errors import BrokerUnavailable
from taskengine.lifecycle.claiming import Lanes, Why, claim_all
from taskengine.lifecycle.operate import cancel, redrive
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.recover import bury, take_late
from taskengine.lifecycle.waking import wake
from taskengine.model.execution import Claim
from taskengine.model.outcome import Outcome
from taskengine.services.deliveries import Deliveries
from taskengine.services.divergence import Divergence
from taskengine.services.waker import Waker
from taskengine.store import executions, queues
from taskengine.store.statements import STATEMENTS, sql
from tests.support.make import (
    CANCELLED,
    DISCARDED,
    FAILED,
    INTERRUPTED,
    RELEASED,
    SNOOZED,
    SUCCEEDED,
    Hands,
    Told,
    a_job,
    lose_first_reply,
    settled_by,
)
from tests.support.until import until

KEY = "employee:7"


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job("work", retry_backoff=60), a_job("other"))


@pytest_asyncio.fixture
async def second(parts: Parts) -> AsyncIterator[Hands]:
    """Another daemon that knows the same jobs."""
    second = Hands(parts, "second")
    second.crew.acquirer.jobs = tuple(parts.registry.names)
    yield await second.join()
    second.die()


async def send(hands: Hands, name: str = "work", **more: Any) -> int:
    return (await hands.dispatch(name, exclusive_key=KEY, **more)).execution_id


async def turn(hands: Hands, n: int = 100) -> list[Claim]:
    """One turn of the worker, by hand: what it claims; the rest is put away."""
    reserved = await hands.reserve(n)
    claims = await hands.crew.acquirer.claim(reserved, hands.worker_id)
    await hands.ack(*claims)
    await hands.crew.acquirer.put_away(reserved, claims)
    return claims


async def end(hands: Hands, claim: Claim, outcome: Outcome = SUCCEEDED) -> None:
    """The flight's end by the settler, and all that it does."""
    flight = hands.flight(claim)
    async with hands.settling():
        hands.crew.settler.put(flight, outcome)


async def marked(hands: Hands) -> list[int]:
    rows = await hands.sql("select id from task_executions where waits_for_key order by id")
    return [row["id"] for row in rows]


async def three(hands: Hands) -> tuple[Claim, int, int]:
    """One holds the key, two wait, marked, without a message."""
    ids = [await send(hands) for _ in range(3)]
    (holder,) = await turn(hands)
    assert holder.id == ids[0]
    assert await marked(hands) == ids[1:]
    assert [await hands.at(each) for each in ids] == [None] * 3
    return holder, ids[1], ids[2]


# ---- at most one claim a key -----------------------------------------------------------------


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


# ---- their order -----------------------------------------------------------------------------


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


# ---- every move out of running wakes the next --------------------------------------------------


@pytest.mark.parametrize(
    "outcome",
    [SUCCEEDED, FAILED, DISCARDED, SNOOZED, RELEASED, CANCELLED, INTERRUPTED],
    ids=lambda outcome: outcome.ending.value,
)
async def test_every_move_out_of_running_wakes_the_next(hands: Hands, outcome: Outcome) -> None:
    holder, first, second = await three(hands)
    await end(hands, holder, outcome)
    assert await hands.at(first) == "queue"
    assert await hands.at(second) is None
    claims = await turn(hands)
    assert [c.id for c in claims] == [first]
    assert first not in await marked(hands)


async def test_a_settlement_repeated_after_a_lost_reply_wakes_the_next(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, first, _ = await three(hands)
    lose_first_reply(monkeypatch, hands.parts.store)
    await end(hands, holder)
    assert await hands.at(first) == "queue"


async def test_unkeyed_settlements_ask_nobody_whose_turn_is_next(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("asked")

    claim = await hands.running()
    monkeypatch.setattr(executions, "next_of_keys", never)
    await end(hands, claim)
    assert await hands.state(claim.id) == "succeeded"


async def test_a_holder_whose_worker_died_is_followed_by_the_next(
    hands: Hands, second: Hands
) -> None:
    _, first, _ = await three(hands)
    assert await bury(second.parts, hands.worker_id, None, "second") == 1
    assert await hands.at(first) == "queue"
    assert [c.id for c in await turn(second)] == [first]


async def test_a_holder_over_time_is_followed_by_the_next(hands: Hands) -> None:
    holder, first, _ = await three(hands)
    await hands.change(holder.id, deadline_at="sql:now() - interval '1 d'")
    assert await take_late(hands.parts, "hands") == 1
    assert await hands.at(first) == "queue"


async def test_a_stray_holder_released_by_the_beat_is_followed_by_the_next(hands: Hands) -> None:
    _, first, _ = await three(hands)
    await hands.beat()
    await hands.beat()
    assert await hands.at(first) == "queue"
    assert [c.id for c in await turn(hands)] == [first]


async def test_one_that_cannot_be_claimed_is_followed_by_the_next(hands: Hands) -> None:
    first, second = await send(hands), await send(hands)
    await hands.sql(
        "create function refuse() returns trigger language plpgsql as "
        f"$$begin if new.id = {first} and new.state = 'running' then raise 'no'; end if; "
        "return new; end$$"
    )
    await hands.sql(
        "create trigger refuse before update on task_executions "
        "for each row execute function refuse()"
    )
    assert await turn(hands) == []
    assert await hands.state(first) == "failed"
    assert [c.id for c in await turn(hands)] == [second]


async def test_a_waiter_that_is_cancelled_and_the_pushed_next_too(hands: Hands) -> None:
    holder, first, second = await three(hands)
    await cancel(hands.parts, [first], "me", "no")
    await end(hands, holder)
    assert await hands.at(second) == "queue"
    third = await send(hands)
    await hands.redis("ZREM", hands.parts.keys.queue("default"), third)
    await cancel(hands.parts, [second], "me", "no")  # it was pushed: its turn goes on to the third
    assert await hands.at(third) == "queue"
    assert [c.id for c in await turn(hands)] == [third]


async def test_a_redriven_one_waits_for_its_key_like_any_other(hands: Hands) -> None:
    failed = await send(hands)
    (claim,) = await turn(hands)
    await end(hands, claim, DISCARDED)
    holder, first, _ = await three(hands)
    await redrive(hands.parts, failed, "me", from_start=False)
    assert await turn(hands) == []
    assert failed in await marked(hands)
    await end(hands, holder)
    assert [c.id for c in await turn(hands)] == [first]


async def test_one_that_will_be_retried_lets_the_next_go_first(hands: Hands) -> None:
    holder, first, _ = await three(hands)
    await end(hands, holder, FAILED)
    assert await hands.at(holder.id) == "delayed"
    assert [c.id for c in await turn(hands)] == [first]


async def test_a_waiter_not_due_is_passed_over_and_comes_by_itself(hands: Hands) -> None:
    await send(hands)
    (holder,) = await turn(hands)
    later = await send(hands, delay=3600.0)
    await end(hands, holder)
    assert await hands.at(later) == "delayed"


async def test_each_queue_has_its_own_next(hands: Hands) -> None:
    """So that a queue nobody polls, or a paused one, holds up none of the others."""
    holder, first, _ = await three(hands)
    high = await send(hands, queue="high")
    assert await turn(hands) == []
    await end(hands, holder)
    assert [await hands.at(each) for each in (first, high)] == ["queue", "queue"]


async def test_a_waiter_in_a_paused_queue_holds_up_nobody_and_runs_when_it_is_resumed(
    hands: Hands,
) -> None:
    holder, first, _ = await three(hands)
    high = await send(hands, queue="high")
    assert await turn(hands) == []
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "default", "me", "a bank holiday")
    await end(hands, holder)
    (next_,) = await turn(hands)
    assert next_.id == high
    await end(hands, next_)
    async with hands.parts.store.connection() as c:
        await queues.resume(c, "default")
    hands.crew.acquirer.paused.clear()
    assert [c.id for c in await turn(hands)] == [first]


# ---- the wake lost, or too early -----------------------------------------------------------------


async def sweep(hands: Hands) -> None:
    await Deliveries(hands.parts, hands.identity, hands.token).tick()


async def test_a_lost_wake_is_made_up_for_by_the_sweep(hands: Hands, told: Told) -> None:
    holder, first, second = await three(hands)
    await hands.settle(holder)  # and it dies before the push
    await sweep(hands)
    assert [await hands.at(each) for each in (first, second)] == ["queue", None]
    assert told.of("execution.woken_late") == [{"count": 1}]


async def test_the_sweep_leaves_waiters_alone_whose_key_is_held(hands: Hands) -> None:
    _, first, second = await three(hands)
    for each in (first, second):
        await hands.change(each, check_at="sql:now()")
    await sweep(hands)
    assert [await hands.at(each) for each in (first, second)] == [None, None]


async def test_the_sweep_goes_through_all_keys_a_batch_after_another(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskengine.services.deliveries._BATCH", 2)
    for n in range(5):
        made = await hands.insert(key=f"k{n}", exclusive=f"key:{n}")
        await hands.change(made.id, waits_for_key=True)
    await sweep(hands)
    assert len(await turn(hands)) == 5


async def test_with_redis_away_at_the_end_the_next_is_found_by_the_sweep(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> int:
        raise BrokerUnavailable("away")

    holder, first, _ = await three(hands)
    with monkeypatch.context() as patch:
        patch.setattr(hands.parts.queues, "push", away)
        await end(hands, holder)
    assert await hands.at(first) is None
    await sweep(hands)
    assert await hands.at(first) == "queue"


async def test_divergence_does_not_count_or_push_marked_waiters(hands: Hands) -> None:
    _, first, second = await three(hands)
    await hands.sql("update task_executions set created_at = now() - interval '1 h'")
    divergence = Divergence(hands.parts, hands.identity, hands.token)
    await divergence.tick()
    await divergence.tick()
    assert [await hands.at(each) for each in (first, second)] == [None, None]


async def refused(hands: Hands) -> tuple[Claim, int, Any]:
    """The key is held, and a waiter was refused: what is left is to put it away."""
    await send(hands)
    (holder,) = await turn(hands)
    waiter = await send(hands)
    reserved = await hands.reserve()
    assert await hands.crew.acquirer.claim(reserved, hands.worker_id) == []
    return holder, waiter, reserved


async def test_race_settled_and_woken_before_the_mark(hands: Hands) -> None:
    holder, waiter, reserved = await refused(hands)
    await end(hands, holder)
    await hands.crew.acquirer.put_away(reserved, [])
    assert await hands.at(waiter) == "queue"
    assert await marked(hands) == []
    assert [c.id for c in await turn(hands)] == [waiter]


async def test_race_settled_before_the_mark_and_died_before_the_wake(hands: Hands) -> None:
    holder, waiter, reserved = await refused(hands)
    await hands.settle(holder)
    await hands.crew.acquirer.put_away(reserved, [])
    assert await hands.at(waiter) == "queue"
    assert [c.id for c in await turn(hands)] == [waiter]


async def test_race_marked_before_the_settlement_and_acknowledged_after_the_wake(
    hands: Hands,
) -> None:
    """The push puts it into the queue, the acknowledgement takes it out of processing."""
    holder, waiter, reserved = await refused(hands)
    async with hands.parts.store.connection() as c:
        (mark,) = await executions.mark_waiting(c, [waiter], ["work"])
    assert (mark.taken, mark.marked) == (True, True)
    await end(hands, holder)
    await hands.parts.queues.ack(reserved)
    assert await hands.at(waiter) == "queue"
    assert [c.id for c in await turn(hands)] == [waiter]


async def test_a_waiter_behind_a_lock_is_put_off_and_not_asked_for_again_and_again(
    hands: Hands,
) -> None:
    holder, waiter, reserved = await refused(hands)
    async with hands.parts.store.transaction() as c:
        await c.execute("select from task_executions where id = $1 for update", waiter)
        await hands.crew.acquirer.put_away(reserved, [])
        assert await hands.at(waiter) == "delayed"
    assert await marked(hands) == []
    await end(hands, holder)
    assert [c.id for c in await turn(hands)] == [waiter]


# ---- many ----------------------------------------------------------------------------------------


async def test_a_thousand_waiters_of_one_key_are_asked_for_once(hands: Hands) -> None:
    """Each is reserved and refused once; each end of a holder moves one message."""
    await send(hands)
    (holder,) = await turn(hands)
    await hands.sql(
        "insert into task_executions (job, queue, idempotency_key, exclusive_key) "
        "select 'work', 'default', 'w' || n, $1 from generate_series(1, 1000) n",
        KEY,
    )
    await sweep_of_all(hands)
    while await hands.redis("ZCARD", hands.parts.keys.queue("default")):
        assert await turn(hands, 500) == []
    assert len(await marked(hands)) == 1000
    keys = hands.parts.keys
    for _ in range(3):
        await end(hands, holder)
        waiting = [await hands.redis("ZCARD", key("default")) for key in (keys.queue, keys.delayed)]
        assert waiting == [1, 0]
        (holder,) = await turn(hands)


async def sweep_of_all(hands: Hands) -> None:
    await hands.sql("update task_executions set check_at = now() where state = 'pending'")
    await sweep(hands)


async def test_two_workers_run_a_key_one_after_another_in_order_beside_free_work(
    hands: Hands, second: Hands
) -> None:
    running, most, ran = 0, 0, list[int]()

    async def body(ctx: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        ran.append(ctx.execution_id)
        await asyncio.sleep(0.001)
        running -= 1

    await hands.know(a_job("pay", body))
    second.crew.acquirer.jobs = tuple(hands.parts.registry.names)
    ids = [(await hands.dispatch("pay", exclusive_key=KEY)).execution_id for _ in range(30)]
    free = [(await hands.dispatch()).execution_id for _ in range(30)]
    async with woken(hands), woken(second), hands.working(), second.working():
        async with asyncio.timeout(20):
            await settled_by(hands, "pay")
            await settled_by(hands, "work")
    assert most == 1
    assert ran == ids
    assert await states(hands, ids + free) == {"succeeded"}


@asynccontextmanager
async def woken(hands: Hands) -> AsyncIterator[None]:
    """With the wake subscription, as a daemon has it: else each next one waits for a poll."""
    waker = asyncio.create_task(Waker(hands.parts, hands.crew.work.set).run(lambda: None))
    try:
        yield
    finally:
        waker.cancel()
        with suppress(asyncio.CancelledError):
            await waker


async def states(hands: Hands, ids: Sequence[int]) -> set[str]:
    rows = await hands.sql("select distinct state from task_executions where id = any($1)", ids)
    return {row["state"] for row in rows}


async def test_a_worker_that_dies_with_a_key_gives_it_up_to_the_other_one(
    hands: Hands, second: Hands
) -> None:
    _, first, last = await three(hands)
    hands.die()
    await bury(second.parts, hands.worker_id, None, "second")
    async with second.working():
        await until(lambda: _ended(second, [first, last]))


async def _ended(hands: Hands, ids: Sequence[int]) -> bool:
    return await states(hands, ids) == {"succeeded"}
