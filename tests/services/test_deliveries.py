"""The loop "delivery sweep": what it does and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from taskengine.errors import BrokerUnavailable
from taskengine.services.deliveries import Deliveries
from tests.support.make import FAILED, SNOOZED, Hands, Told, a_job

SOON = 15.0  # seconds: `check_after`


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job("work", retry_backoff=60), a_job("urgent", queue="high"))


def sweeper(hands: Hands) -> Deliveries:
    return Deliveries(hands.parts, hands.identity, hands.token)


async def until_check(hands: Hands, execution_id: int) -> float:
    """Seconds until it is looked at."""
    (row,) = await hands.sql(
        "select extract(epoch from check_at - now())::float8 as s from task_executions"
        " where id = $1",
        execution_id,
    )
    return float(row["s"])


async def overdue(hands: Hands, *ids: int) -> None:
    for each in ids:
        await hands.change(each, check_at="sql:now()")


async def test_pending_due_rows_without_a_message_are_pushed_by_their_run_at(
    hands: Hands, told: Told
) -> None:
    made = [await hands.insert(key=f"{n}") for n in range(3)]
    urgent = await hands.insert("urgent")
    await overdue(hands, *(m.id for m in made), urgent.id)
    await sweeper(hands).tick()
    key = hands.parts.keys.queue("default")
    assert [float(await hands.redis("ZSCORE", key, m.id)) for m in made] == [m.score for m in made]
    assert await hands.at(urgent.id) == "queue"
    assert [e["count"] for e in told.of("delivery.repaired")] == [4]


async def test_check_at_is_moved_on_before_the_push_and_doubles_to_15_minutes(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await hands.insert()

    async def away(*_: Any) -> Any:
        raise BrokerUnavailable("away")

    monkeypatch.setattr(hands.parts.queues, "push", away)
    for age, wait in ((0, 15), (40, 40), (300, 300), (86400, 900)):
        await hands.change(made.id, run_at=f"sql:now() - interval '{age} s'")
        await overdue(hands, made.id)
        with pytest.raises(BrokerUnavailable):
            await sweeper(hands).tick()
        assert wait - 1 < await until_check(hands, made.id) < wait + 5


async def test_fresh_rows_are_refused(hands: Hands) -> None:
    made = await hands.insert()
    later = await hands.insert(key="later", delay=3600.0)
    await sweeper(hands).tick()
    assert [await hands.at(each.id) for each in (made, later)] == [None, None]
    assert 3600 < await until_check(hands, later.id) < 3600 + SOON + 1


async def test_claimed_rows_are_refused(hands: Hands) -> None:
    claim = await hands.running()
    await overdue(hands, claim.id)
    await sweeper(hands).tick()
    assert await hands.at(claim.id) is None


async def test_marked_waiters_are_refused(hands: Hands) -> None:
    made = await hands.insert()
    await hands.change(made.id, waits_for_key=True)
    await overdue(hands, made.id)
    await sweeper(hands).tick()
    assert await hands.at(made.id) is None


async def test_rows_of_a_queue_that_is_not_listed_are_refused(hands: Hands) -> None:
    made = await hands.insert()
    await hands.change(made.id, queue="gone")
    await overdue(hands, made.id)
    await sweeper(hands).tick()
    assert await hands.redis("EXISTS", hands.parts.keys.queue("gone")) == 0


async def test_a_row_whose_message_waits_goes_straight_to_15_minutes(hands: Hands) -> None:
    queued = await hands.dispatch()
    delayed = await hands.dispatch(delay=0.0)
    await hands.redis("ZREM", hands.parts.keys.queue("default"), delayed.execution_id)
    await hands.redis("ZADD", hands.parts.keys.delayed("default"), 10**16, delayed.execution_id)
    await overdue(hands, queued.execution_id, delayed.execution_id)
    await sweeper(hands).tick()
    for each in (queued, delayed):
        assert 895 < await until_check(hands, each.execution_id) <= 900
    assert await hands.at(delayed.execution_id) == "delayed"


async def test_a_message_in_processing_does_not_count_as_delivered(hands: Hands) -> None:
    sent = await hands.dispatch()
    await hands.reserve()
    await overdue(hands, sent.execution_id)
    await sweeper(hands).tick()
    assert await hands.at(sent.execution_id) == "queue+processing"


async def test_it_looks_at_no_more_than_its_limit(hands: Hands) -> None:
    limited = hands.parts.config.recovery.model_copy(update={"sweep_limit": 1000})
    config = hands.parts.config.model_copy(update={"recovery": limited})
    await hands.sql(
        "insert into task_executions (job, queue, idempotency_key, check_at)"
        " select 'work', 'default', 'k' || n, now() from generate_series(1, 2300) n"
    )
    sweep = Deliveries(replace(hands.parts, config=config), hands.identity, hands.token)
    for expected in (1000, 2000, 2300):
        await sweep.tick()
        assert await hands.redis("ZCARD", hands.parts.keys.queue("default")) == expected


async def test_it_sweeps_only_under_the_lease(hands: Hands) -> None:
    other = Hands(hands.parts, "other")
    await sweeper(other).tick()
    made = await hands.insert()
    await overdue(hands, made.id)
    sweep = sweeper(hands)
    await sweep.tick()
    assert await hands.at(made.id) is None
    assert sweep.last_findings == {"lease": "elsewhere"}


async def test_a_row_that_another_sweep_has_locked_is_skipped(hands: Hands) -> None:
    one, two = await hands.insert(key="1"), await hands.insert(key="2")
    await overdue(hands, one.id, two.id)
    async with hands.parts.store.transaction() as c:
        await c.execute("select from task_executions where id = $1 for update", one.id)
        await sweeper(hands).tick()
    assert [await hands.at(one.id), await hands.at(two.id)] == [None, "queue"]


async def test_every_move_to_pending_sets_when_it_is_looked_at(hands: Hands) -> None:
    """`check_at = greatest(run_at, now) + 15 s`: dispatch, delayed, retry, snooze, redrive."""
    sent = await hands.dispatch()
    assert SOON - 5 < await until_check(hands, sent.execution_id) <= SOON
    for outcome, low, high in ((FAILED, 60, 66), (SNOOZED, 300, 300)):
        claim = await hands.running()
        await hands.settle(claim, outcome)
        wait = await until_check(hands, claim.id)
        assert low + SOON - 5 < wait <= high + SOON
