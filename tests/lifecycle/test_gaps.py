"""The gaps between the verbs: what is left when one dies or its reply is lost, and who heals it.

One test or more for each row of the table "died, or the reply was lost, between" of the design, and
for the rows of the page's "The way of one execution". A crash is a call not made; a lost reply is a
call made and its answer thrown away. (The row "webhook stored ✗ dispatched" is with the webhooks.)
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskengine.lifecycle.acquire import Acquirer
from taskengine.lifecycle.leased import Leased
from taskengine.lifecycle.operate import redrive
from taskengine.model.context import JobContext
from taskengine.services.deliveries import Deliveries
from taskengine.services.divergence import Divergence
from taskengine.services.orphans import DeadWorkers, OverTime, Reservations
from taskengine.services.promoter import Promoter
from tests.support.make import DISCARDED, FAILED, SUCCEEDED, Hands, a_job, lose_first_reply


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job("work", retry_backoff=0))


def leased(service: type[Any], hands: Hands) -> Leased:
    made: Leased = service(hands.parts, hands.identity, hands.token)
    return made


async def runs_once(hands: Hands, execution_id: int) -> None:
    """It is delivered, can be claimed once, and nothing of it is left in Redis afterwards."""
    assert [r.id for r in await hands.reserve()].count(execution_id) == 1
    (claim,) = await hands.claim(execution_id)
    await hands.ack(claim)
    await hands.settle(claim)
    assert await hands.state(execution_id) == "succeeded"
    assert await hands.at(execution_id) is None


# ---- dispatch ✗ deliver, or a queue key lost ------------------------------------------------------


async def test_gap_dispatch_deliver_is_healed_by_the_delivery_sweep(hands: Hands) -> None:
    made = await hands.insert()
    sweep = leased(Deliveries, hands)
    await sweep.tick()
    assert await hands.at(made.id) is None  # fresh: its push may be on its way
    await hands.change(made.id, check_at="sql:now()")
    await sweep.tick()
    await runs_once(hands, made.id)


async def test_gap_dispatch_deliver_of_later_work_is_healed_when_it_is_due(hands: Hands) -> None:
    made = await hands.insert(delay=3600.0)
    await leased(Deliveries, hands).tick()
    assert await hands.at(made.id) is None
    await hands.change(made.id, run_at="sql:now()", check_at="sql:now()")
    await leased(Deliveries, hands).tick()
    await runs_once(hands, made.id)


async def test_gap_a_queue_key_lost_is_healed_by_divergence(hands: Hands) -> None:
    sent = await hands.dispatch()
    await hands.redis("DEL", hands.parts.keys.queue("default"))
    await hands.change(sent.execution_id, created_at="sql:now() - interval '16 s'")
    await divergence(hands)
    await runs_once(hands, sent.execution_id)


async def divergence(hands: Hands) -> None:
    await Divergence(hands.parts, hands.identity, hands.token).tick()


# ---- Redis emptied, restored, replaced -----------------------------------------------------------


async def test_gap_redis_emptied_is_healed_by_divergence_at_once(hands: Hands) -> None:
    due = await hands.dispatch()
    later = await hands.dispatch(delay=3600.0)
    keys = await hands.redis("KEYS", f"{hands.parts.keys.prefix}:*")
    await hands.redis("DEL", *keys)
    await divergence(hands)
    assert await hands.at(later.execution_id) == "delayed"
    await runs_once(hands, due.execution_id)


async def test_gap_redis_restored_with_false_messages_gives_up_only_what_is_true(
    hands: Hands,
) -> None:
    """From yesterday's file: ids that have ended since, ids that never were, and a lower epoch."""
    ended = await hands.running()
    await hands.settle(ended)
    pending = await hands.insert()
    await hands.redis("HSET", hands.parts.keys.epoch, "generation", 0)
    queue = hands.parts.keys.queue("default")
    await hands.redis("ZADD", queue, 1, ended.id, 2, 10**9)
    assert await hands.reserve() == []  # a bad epoch gives nothing
    await divergence(hands)
    reserved = await hands.reserve()
    assert {r.id for r in reserved} == {ended.id, 10**9, pending.id}
    claims = await hands.claim(*(r.id for r in reserved))
    assert [c.id for c in claims] == [pending.id]
    await hands.ack(*claims)
    await hands.crew.acquirer.put_away(reserved, claims)
    assert await hands.redis("ZCARD", hands.parts.keys.processing("default")) == 0
    assert await hands.redis("ZCARD", queue) == 0


# ---- reserve ✗ claim -----------------------------------------------------------------------------


async def test_gap_reserve_claim_is_healed_by_the_requeue_after_the_grace(hands: Hands) -> None:
    sent = await hands.dispatch()
    await hands.reserve()  # the process dies here, or its reply is lost
    assert await hands.at(sent.execution_id) == "processing"
    requeue = Reservations(hands.parts)
    await requeue.tick()
    assert await hands.at(sent.execution_id) == "processing"
    await hands.age_reservations()
    await requeue.tick()
    await runs_once(hands, sent.execution_id)


# ---- claim ✗ ack ---------------------------------------------------------------------------------


async def test_gap_claim_ack_is_healed_by_the_requeue_and_a_claim_that_says_no(
    hands: Hands,
) -> None:
    sent = await hands.dispatch()
    await hands.reserve()
    (claim,) = await hands.claim(sent.execution_id)  # no ack
    await hands.age_reservations()
    await Reservations(hands.parts).tick()
    assert await hands.at(sent.execution_id) == "queue"
    reserved = await hands.reserve()
    assert await hands.claim(sent.execution_id) == []
    await hands.crew.acquirer.put_away(reserved, [])
    assert await hands.at(sent.execution_id) is None
    assert (await hands.row(claim.id))["claim_token"] == claim.token


# ---- the claim's reply ---------------------------------------------------------------------------


async def test_gap_the_claims_reply_is_healed_by_repeating_under_the_same_token(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [(await hands.dispatch()).execution_id for _ in range(3)]
    reserved = await hands.reserve()
    with monkeypatch.context() as broken:
        uses = lose_first_reply(broken, hands.parts.store)
        claims = await hands.crew.acquirer.claim(reserved, hands.worker_id)
    assert len(uses) == 2
    assert [c.id for c in claims] == sent
    assert len({c.token for c in claims}) == 1
    for each in claims:
        await hands.settle(each)
        assert await hands.state(each.id) == "succeeded"


async def test_gap_the_claims_reply_a_token_is_never_sent_again_once_it_was_read(
    hands: Hands,
) -> None:
    first = await hands.dispatch()
    second = await hands.dispatch()
    acquirer = Acquirer(hands.parts, hands.identity)
    reserved = {r.id: r for r in await hands.reserve()}
    (a,) = await acquirer.claim([reserved[first.execution_id]], hands.worker_id)
    (b,) = await acquirer.claim([reserved[second.execution_id]], hands.worker_id)
    assert a.token != b.token
    assert acquirer.claiming == set()


# ---- claim ✗ settle ------------------------------------------------------------------------------


async def test_gap_claim_settle_of_a_dead_worker_is_healed_as_worker_died(hands: Hands) -> None:
    other = await Hands(hands.parts, "other").join()
    sent = await hands.dispatch()
    await hands.reserve()
    (claim,) = await other.claim(sent.execution_id)
    other.die()
    await hands.silence(other.worker_id)
    await DeadWorkers(hands.parts, hands.identity, hands.watch).tick()
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["last_error"]) == (
        "pending",
        2,
        "Orphaned(worker_died)",
    )
    await hands.redis("DEL", hands.parts.keys.processing("default"))
    await runs_once(hands, claim.id)


async def test_gap_claim_settle_past_all_time_is_healed_as_over_time(hands: Hands) -> None:
    claim = await hands.running()
    sweep = leased(OverTime, hands)
    await sweep.tick()
    assert await hands.state(claim.id) == "running"
    await hands.change(claim.id, deadline_at="sql:now() - interval '301 s'")
    await sweep.tick()
    row = await hands.row(claim.id)
    assert (row["state"], row["last_error"]) == ("pending", "Orphaned(over_time)")
    await runs_once(hands, claim.id)


# ---- claimed, but not held -----------------------------------------------------------------------


async def test_gap_claimed_but_not_held_is_healed_by_the_beat(hands: Hands) -> None:
    claim = await hands.running()  # and then an exception: nobody holds it
    await hands.beat()
    assert await hands.state(claim.id) == "running"  # once is not enough
    await hands.beat()
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["orphanings"]) == ("pending", 1, 0)
    (line,) = await hands.sql("select move, reason from task_attempts")
    assert tuple(line.values()) == ("released", "lost_claim")
    await runs_once(hands, claim.id)


# ---- settle's reply ------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [SUCCEEDED, FAILED, DISCARDED], ids=lambda o: o.ending)
async def test_gap_settles_reply_is_healed_by_repeating_it(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, outcome: Any
) -> None:
    claim = await hands.running()
    flight = hands.flight(claim)
    hands.crew.inflight.add(flight)
    with monkeypatch.context() as broken:
        uses = lose_first_reply(broken, hands.parts.store)
        async with hands.settling():
            hands.crew.settler.put(flight, outcome)
    assert len(uses) == 2
    states = {SUCCEEDED: "succeeded", FAILED: "pending", DISCARDED: "failed"}
    assert await hands.state(claim.id) == states[outcome]
    assert len(await hands.history(claim.id)) == (0 if outcome is SUCCEEDED else 1)
    assert hands.crew.inflight.get(claim.id) is None


async def test_gap_settles_reply_lost_leaves_the_message_of_a_retry_to_the_sweep(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repeat moves no row, so nobody delivers."""
    claim = await hands.running()
    with monkeypatch.context() as broken:
        lose_first_reply(broken, hands.parts.store)
        async with hands.settling():
            hands.crew.settler.put(hands.flight(claim), FAILED)
    assert await hands.at(claim.id) is None
    await hands.change(claim.id, check_at="sql:now()")
    await leased(Deliveries, hands).tick()
    await runs_once(hands, claim.id)


async def test_gap_settle_deliver_is_healed_by_the_delivery_sweep(hands: Hands) -> None:
    claim = await hands.running()
    await hands.settle(claim, FAILED)  # pending again; the process dies before the push
    assert await hands.at(claim.id) is None
    await hands.change(claim.id, check_at="sql:now()")
    await leased(Deliveries, hands).tick()
    await runs_once(hands, claim.id)


# ---- dispatch's reply ----------------------------------------------------------------------------


async def test_gap_dispatchs_reply_is_healed_by_the_caller_with_the_same_key(hands: Hands) -> None:
    made = await hands.insert(key="order:1")
    again = await hands.dispatch(key="order:1")
    assert (again.execution_id, again.created) == (made.id, False)
    await runs_once(hands, made.id)


# ---- waiting for its time ------------------------------------------------------------------------


async def test_gap_waiting_for_its_time_is_healed_by_the_promoter(hands: Hands) -> None:
    sent = await hands.dispatch(delay=3600.0)
    promoter = Promoter(hands.parts, hands.identity)
    await promoter.tick()
    assert await hands.at(sent.execution_id) == "delayed"
    await hands.make_due(sent.execution_id)
    hands.identity.offset += 3601
    await promoter.tick()
    await runs_once(hands, sent.execution_id)


async def test_gap_redrive_deliver_is_healed_by_the_delivery_sweep(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = await hands.running()
    await hands.settle(claim, DISCARDED)
    await hands.redis("DEL", hands.parts.keys.queue("default"))
    await redrive(hands.parts, claim.id, "ann", from_start=False)
    await hands.redis("DEL", hands.parts.keys.queue("default"))  # as if it had died before
    await hands.change(claim.id, check_at="sql:now()")
    await leased(Deliveries, hands).tick()
    await runs_once(hands, claim.id)


# ---- the way of one execution, step 4: where a reserved id goes that was not claimed ---------------


async def put_away(hands: Hands, jobs: tuple[str, ...] = ("work",)) -> None:
    reserved = await hands.reserve()
    await hands.crew.acquirer.put_away(reserved, [], jobs)


async def test_reserved_not_due_is_delayed(hands: Hands) -> None:
    sent = await hands.dispatch()
    await hands.change(sent.execution_id, run_at="sql:now() + interval '1 h'")
    await put_away(hands)
    assert await hands.at(sent.execution_id) == "delayed"
    row = await hands.row(sent.execution_id)
    key = hands.parts.keys.delayed("default")
    score = float(await hands.redis("ZSCORE", key, sent.execution_id))
    assert abs(score - row["run_at"].timestamp() * 1e6) < 2


async def test_reserved_class_unknown_here_is_delayed_by_5_s_and_taken_by_another(
    hands: Hands,
) -> None:
    sent = await hands.dispatch()
    await put_away(hands, ("other",))
    assert await hands.at(sent.execution_id) == "delayed"
    score = float(
        await hands.redis("ZSCORE", hands.parts.keys.delayed("default"), sent.execution_id)
    )
    ahead = score / 1e6 - hands.parts.clock.now().timestamp()
    assert 3 < ahead <= 5
    hands.identity.offset += 6
    await Promoter(hands.parts, hands.identity).tick()
    await runs_once(hands, sent.execution_id)


async def test_reserved_of_a_paused_queue_is_pushed_back_by_its_run_at_and_no_longer_polled(
    hands: Hands,
) -> None:
    first = await hands.dispatch()
    queue = hands.parts.keys.queue("default")
    score = await hands.redis("ZSCORE", queue, first.execution_id)
    await hands.sql("insert into task_queues (name, paused_at) values ('default', now())")
    await put_away(hands)
    assert await hands.at(first.execution_id) == "queue"
    assert await hands.redis("ZSCORE", queue, first.execution_id) == score
    assert hands.crew.acquirer.paused == {"default"}
    assert await hands.reserve() == []


async def test_reserved_gone_or_terminal_or_running_elsewhere_is_acknowledged(
    hands: Hands,
) -> None:
    running = await hands.running()
    ended = await hands.running()
    await hands.settle(ended)
    queue = hands.parts.keys.queue("default")
    await hands.redis("ZADD", queue, 1, running.id, 1, ended.id, 1, 10**9)
    await put_away(hands)
    assert [await hands.at(i) for i in (running.id, ended.id, 10**9)] == [None] * 3


async def test_run_a_context_of_a_former_claim_keeps_no_cursor(hands: Hands) -> None:
    """What a late body says is fenced off like what it returns."""
    claim = await hands.running()
    ctx = JobContext(claim, hands.crew.backstage)
    await hands.settle(claim, FAILED)
    (again,) = await hands.claim(claim.id)
    with pytest.raises(Exception, match="no longer ours"):
        await ctx.save_cursor({"page": 1})
    assert (await hands.row(again.id))["cursor"] is None


async def test_two_daemons_that_reserve_and_claim_at_once_share_without_overlap(
    hands: Hands,
) -> None:
    other = await Hands(hands.parts, "other").join()
    other.crew.acquirer.jobs = ("work",)
    sent = {(await hands.dispatch()).execution_id for _ in range(40)}

    async def acquire(each: Hands) -> list[int]:
        got = []
        while reserved := await each.reserve(7):
            claims = await each.crew.acquirer.claim(reserved, each.worker_id)
            await each.crew.acquirer.ack(claims)
            got += [c.id for c in claims]
        return got

    mine, theirs = await asyncio.gather(acquire(hands), acquire(other))
    assert sorted(mine + theirs) == sorted(sent)
    other.die()
