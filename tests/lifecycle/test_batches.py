"""In every batch one bad row never holds up its neighbours ("The way of one execution", its end).

For each verb that goes in batches: dispatch, claim, settle, the execution log. And the coalescer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from taskengine.errors import DataRejected, PayloadError, StoreBusy, TaskEngineError, UnknownJob
from taskengine.lifecycle.batches import Coalescer, halved
from taskengine.lifecycle.dispatch import Request
from taskengine.model.context import JobContext
from taskengine.model.execution import Claim
from taskengine.model.outcome import Ending, Outcome, Retry, Snooze
from taskengine.store import executions
from tests.support.make import (
    DISCARDED,
    FAILED,
    SNOOZED,
    SUCCEEDED,
    Hands,
    Told,
    a_job,
    lose_first_reply,
)
from tests.support.until import until

NUL = '{"name": "a\\u0000b"}'  # JSON, but none that Postgres takes
ENDLESS = 2**63 - 1


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job())


# ---- dispatch ------------------------------------------------------------------------------------


async def test_dispatch_one_payload_refused_by_postgres_is_its_own_callers_error(
    hands: Hands,
) -> None:
    requests = [Request("work", key=str(n)) for n in range(20)]
    requests[7] = Request("work", payload=NUL, key="bad")
    answers = await asyncio.gather(
        *(hands.dispatcher.dispatch(each) for each in requests), return_exceptions=True
    )
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    assert [type(error) for error in errors] == [PayloadError]
    assert answers[7] is errors[0]
    assert len(await hands.sql("select from task_executions")) == 19
    assert len(await hands.reserve()) == 19


async def test_dispatch_one_unknown_job_is_its_own_callers_error(hands: Hands) -> None:
    one, two = await asyncio.gather(
        hands.dispatch(), hands.dispatch("wrok"), return_exceptions=True
    )
    assert isinstance(two, UnknownJob)
    assert not isinstance(one, BaseException)
    assert one.created


async def test_dispatch_many_in_bulk_keeps_all_but_the_refused_one(hands: Hands) -> None:
    requests = [Request("work", key=str(n)) for n in range(1200)]
    requests[600] = Request("work", payload=NUL, key="bad")
    with pytest.raises(PayloadError):
        await hands.dispatcher.dispatch_many(requests)
    assert len(await hands.sql("select from task_executions")) == 1199


async def test_dispatch_a_callers_open_transaction_on_one_key_holds_up_nobody_else(
    hands: Hands,
) -> None:
    """55P03 splits the batch; the one behind the lock is waited for by its own caller only."""
    async with hands.parts.store.transaction() as c:
        await c.execute(
            "insert into task_executions (job, queue, idempotency_key)"
            " values ('work', 'default', 'held')"
        )
        held = asyncio.create_task(hands.dispatch(key="held"))
        others = [asyncio.create_task(hands.dispatch(key=str(n))) for n in range(30)]
        answers = await asyncio.gather(*others)
        assert all(answer.created and answer.delivered for answer in answers)
        assert not held.done()
        later = await hands.dispatch(key="later")
        assert later.created
    answer = await held
    assert (answer.created, answer.delivered) == (False, True)


async def test_dispatch_a_callers_transaction_that_rolls_back_leaves_the_key_to_the_next(
    hands: Hands,
) -> None:
    class Undo(Exception): ...

    with pytest.raises(Undo):
        async with hands.parts.store.transaction() as c:
            await c.execute(
                "insert into task_executions (job, queue, idempotency_key)"
                " values ('work', 'default', 'held')"
            )
            held = asyncio.create_task(hands.dispatch(key="held"))
            await asyncio.sleep(0)
            raise Undo
    assert (await held).created


async def test_dispatch_the_same_key_twice_in_one_batch_is_one_row_and_both_are_told(
    hands: Hands,
) -> None:
    answers = await asyncio.gather(*(hands.dispatch(key="k") for _ in range(5)))
    assert len({answer.execution_id for answer in answers}) == 1
    assert sorted(answer.created for answer in answers) == [False] * 4 + [True]
    assert all(answer.delivered for answer in answers)


async def test_dispatch_of_a_row_that_is_gone_meanwhile_is_inserted_again(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conflict's row is read by a second statement; retention may have been there in between."""
    await hands.dispatch(key="k")
    found = executions.found

    async def gone_by_then(c: Any, rows: Any) -> Any:
        await c.execute("delete from task_executions")
        return await found(c, rows)

    with monkeypatch.context() as changed:
        changed.setattr(executions, "found", gone_by_then)
        answer = await hands.dispatch(key="k")
    assert answer.created
    assert len(await hands.sql("select from task_executions")) == 1


async def test_dispatch_whose_reply_was_lost_knows_its_own_row_by_the_key_it_drew(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        lose_first_reply(broken, hands.parts.store)
        drawn = await hands.dispatch()
    with monkeypatch.context() as broken:
        lose_first_reply(broken, hands.parts.store)
        given = await hands.dispatch(key="k")
    assert (drawn.created, given.created) == (True, False)  # of a given key nobody can know
    assert len(await hands.reserve()) == 2


async def test_dispatch_a_lost_reply_in_a_split_batch_is_that_parts_alone(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [Request("work", payload=NUL, key="0"), *(Request("work", key=k) for k in "123")]
    with monkeypatch.context() as broken:
        lose_first_reply(broken, hands.parts.store, after=1)
        answers = await asyncio.gather(
            *map(hands.dispatcher.dispatch, requests), return_exceptions=True
        )
    assert [getattr(answer, "created", None) for answer in answers] == [None, True, False, False]


# ---- claim ---------------------------------------------------------------------------------------


async def test_claim_a_row_that_cannot_be_claimed_is_failed_with_the_reason(
    hands: Hands, told: Told
) -> None:
    ids = [(await hands.dispatch()).execution_id for _ in range(9)]
    await hands.change(ids[4], fence=ENDLESS)  # cannot count any further
    reserved = await hands.reserve()
    claims = await hands.crew.acquirer.claim(reserved, hands.worker_id)
    assert sorted(c.id for c in claims) == ids[:4] + ids[5:]
    row = await hands.row(ids[4])
    assert row["state"] == "failed"
    assert "cannot be claimed" in row["last_error"]
    assert "bigint out of range" in row["last_error"]
    assert await hands.history(ids[4]) == ["unclaimable"]
    assert [e["execution_id"] for e in told.of("execution.unclaimable")] == [ids[4]]
    await hands.crew.acquirer.put_away(reserved, claims)
    assert await hands.at(ids[4]) is None


async def test_claim_a_row_that_cannot_be_claimed_ends_as_any_failure_counted_and_noticed(
    hands: Hands, told: Told
) -> None:
    await hands.know(a_job("quiet", notify_on_failure=False))
    ids = [(await hands.dispatch(job)).execution_id for job in ("work", "work", "quiet")]
    for each in ids:
        await hands.change(each, fence=ENDLESS)
    assert await hands.crew.acquirer.claim(await hands.reserve(), hands.worker_id) == []
    rows = [row for event in told.of("executions.settled") for row in event["rows"]]
    assert sorted(row[1:3] for row in rows) == [
        ("quiet", "unclaimable"),
        ("work", "unclaimable"),
        ("work", "unclaimable"),
    ]
    (notice,) = await hands.sql(
        "select id, queue, subject, payload::text, run_at > now() as later from task_executions"
        " where job = 'taskengine.notify-failure'"
    )
    assert (notice["subject"], notice["payload"]) == ("job:work", '{"job": "work"}')
    assert (notice["queue"], notice["later"]) == (hands.parts.notice_queue, True)
    assert await hands.at(notice["id"]) == "delayed"


# ---- settle --------------------------------------------------------------------------------------


async def settle_all(
    hands: Hands, outcomes: Sequence[Outcome], claims: Sequence[Claim] = ()
) -> list[int]:
    """All in one batch."""
    claims = claims or [await hands.running() for _ in outcomes]
    for claim, outcome in zip(claims, outcomes, strict=True):
        hands.crew.settler.put(hands.flight(claim), outcome)
    async with hands.settling():
        pass
    return [claim.id for claim in claims]


async def test_settle_a_result_that_cannot_be_stored_is_settled_without_it(hands: Hands) -> None:
    good = SUCCEEDED._replace(result='{"n": 1}')
    ids = await settle_all(hands, [good, good, SUCCEEDED._replace(result=NUL), good])
    rows = [await hands.row(each) for each in ids]
    assert [row["state"] for row in rows] == ["succeeded"] * 4
    assert [row["result"] for row in rows] == ['{"n": 1}', '{"n": 1}', None, '{"n": 1}']
    assert rows[2]["result_error"].startswith("not storable")
    assert rows[3]["result_error"] is None


REFUSED = [
    pytest.param(FAILED._replace(error="a\0b"), "pending", id="error"),
    pytest.param(FAILED._replace(traceback="a\0b"), "pending", id="traceback"),
    pytest.param(DISCARDED._replace(progress=1, progress_message="\0"), "failed", id="message"),
    pytest.param(SNOOZED._replace(reason="a\0b"), "pending", id="reason"),
    pytest.param(SNOOZED._replace(reason="\ud800"), "pending", id="surrogate"),
    pytest.param(SNOOZED._replace(delay=1e300), "pending", id="delay"),
]


@pytest.mark.parametrize(("outcome", "state"), REFUSED)
async def test_settle_a_move_with_something_that_postgres_refuses_is_made_without_it(
    hands: Hands, outcome: Outcome, state: str
) -> None:
    ids = await settle_all(hands, [FAILED, outcome, DISCARDED])
    assert [await hands.state(each) for each in ids] == ["pending", state, "failed"]
    assert len(await hands.history(ids[1])) == 1


@pytest.mark.parametrize(
    "asked",
    [
        Snooze(seconds=1e9),
        Snooze(hours=2e10),
        Snooze(reason="a\0b", minutes=1),
        Retry(after=float("inf")),
        Retry(after=float("nan")),
        Retry("a\0b", after=1e300),
    ],
    ids=repr,
)
async def test_settle_what_a_body_may_ask_for_ends_no_worker(
    hands: Hands, asked: Exception
) -> None:
    async def body(ctx: Any) -> None:
        raise asked

    await hands.know(a_job("asks", body))
    claim, neighbour = await hands.running("asks"), await hands.running()
    async with hands.settling():
        flights = [hands.fly(claim), hands.fly(neighbour)]
        await asyncio.gather(*(f.task for f in flights if f.task is not None))
    assert await hands.state(claim.id) == "pending"
    assert await hands.state(neighbour.id) == "succeeded"


async def test_settle_one_lost_claim_moves_the_others(hands: Hands, told: Told) -> None:
    claims = [await hands.running() for _ in range(3)]
    await hands.settle(claims[1], FAILED)  # somebody else decided first
    for claim in claims:
        hands.crew.settler.put(hands.flight(claim), SUCCEEDED)
    async with hands.settling():
        pass
    states = [await hands.state(claim.id) for claim in claims]
    assert states == ["succeeded", "pending", "succeeded"]
    assert [e["execution_id"] for e in told.of("execution.claim_lost")] == [claims[1].id]


async def test_settle_what_ends_while_a_statement_is_in_flight_goes_together_in_the_next(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = [await hands.running() for _ in range(5)]
    sizes: list[int] = []
    succeed = executions.succeed

    async def counted(c: Any, rows: Any) -> Any:
        sizes.append(len(rows))
        if len(sizes) == 1:
            for claim in claims[1:]:
                hands.crew.settler.put(hands.flight(claim), SUCCEEDED)
        return await succeed(c, rows)

    monkeypatch.setattr(executions, "succeed", counted)
    hands.crew.settler.put(hands.flight(claims[0]), SUCCEEDED)
    async with hands.settling():
        pass
    assert sizes == [1, 4]


async def test_settle_a_lost_reply_in_a_split_batch_repeats_that_part_alone(
    hands: Hands, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was settled before it is known to be: told as moved, and delivered."""
    with monkeypatch.context() as broken:
        claims = [await hands.running() for _ in range(4)]
        lose_first_reply(broken, hands.parts.store, after=2)
        ids = await settle_all(hands, [FAILED._replace(error="a\0b"), *[FAILED] * 3], claims)
    assert [await hands.state(each) for each in ids] == ["pending"] * 4
    assert [await hands.history(each) for each in ids] == [["retried"]] * 4
    assert [e["execution_id"] for e in told.of("execution.claim_lost")] == ids[2:]
    assert [await hands.at(each) for each in ids] == ["delayed", "delayed", None, None]


# ---- the execution log ---------------------------------------------------------------------------


async def test_log_a_line_that_cannot_be_stored_takes_no_other_line_along(hands: Hands) -> None:
    claim = await hands.running()
    flight = hands.flight(claim)
    ctx: JobContext = flight.ctx
    ctx.info("before")
    ctx.log("le\0vel", "in \0 \ud800 between", field={"a": "\0"}, other=object())
    ctx.info("after")
    await hands.crew.scribe.flush([flight])
    lines = await hands.sql("select message from task_execution_logs order by id")
    assert [line["message"] for line in lines][::2] == ["before", "after"]
    assert len(lines) == 3


# ---- the split and the coalescer -----------------------------------------------------------------


async def test_halved_runs_the_good_in_order_and_the_bad_alone() -> None:
    alone: list[int] = []

    async def run(items: Sequence[int]) -> list[int]:
        if any(item % 10 == 3 for item in items):
            raise DataRejected("three")
        return list(items)

    async def refuse(item: int, error: Exception) -> list[int]:
        alone.append(item)
        return [-item]

    assert await halved(range(20), run, refuse) == [-i if i % 10 == 3 else i for i in range(20)]
    assert alone == [3, 13]


async def test_halved_leaves_other_errors_alone() -> None:
    async def run(items: Sequence[int]) -> list[int]:
        raise TaskEngineError("something else")

    with pytest.raises(TaskEngineError, match="something else"):
        await halved([1, 2], run, lambda item, error: run([]))


async def test_coalescer_a_cancelled_caller_leaves_the_batch_alone() -> None:
    go, batches = asyncio.Event(), list[Sequence[int]]()

    async def run(items: Sequence[int]) -> Sequence[int]:
        batches.append(items)
        await go.wait()
        return [item * 2 for item in items]

    coalescer = Coalescer[int, int](run)
    callers = [asyncio.create_task(coalescer.submit(n)) for n in range(5)]
    await until(lambda: batches)
    callers[2].cancel()
    go.set()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert [a for a in answers if not isinstance(a, BaseException)] == [0, 2, 6, 8]
    assert isinstance(answers[2], asyncio.CancelledError)
    assert batches == [[0, 1, 2, 3, 4]]


async def test_coalescer_each_caller_gets_its_own_error() -> None:
    async def run(items: Sequence[int]) -> Sequence[int | Exception]:
        return [StoreBusy("one") if item == 1 else item for item in items]

    coalescer = Coalescer[int, int](run)
    answers = await asyncio.gather(*(coalescer.submit(n) for n in range(3)), return_exceptions=True)
    assert [type(a) for a in answers] == [int, StoreBusy, int]


async def test_coalescer_serves_whoever_comes_at_the_moment_its_lane_ends() -> None:
    """Callers that come one, two, three … turns of the loop after an answer: none is forgotten."""

    async def run(items: Sequence[int]) -> Sequence[int]:
        return items

    coalescer = Coalescer[int, int](run)
    async with asyncio.timeout(20):
        for turns in range(8):
            await coalescer.submit(turns)
            for _ in range(turns):
                await asyncio.sleep(0)
            assert await coalescer.submit(turns) == turns


async def test_coalescer_a_batch_that_takes_long_lets_another_start_beside_it() -> None:
    stuck, begun = asyncio.Event(), asyncio.Event()

    async def run(items: Sequence[str]) -> Sequence[str]:
        begun.set()
        if "slow" in items:
            await stuck.wait()
        return items

    coalescer = Coalescer[str, str](run)
    slow = asyncio.create_task(coalescer.submit("slow"))
    await begun.wait()
    assert await coalescer.submit("quick") == "quick"
    assert not slow.done()
    stuck.set()
    await slow


def test_ending_names_every_move_that_is_tested() -> None:
    """A new way to end belongs into the tables of these tests."""
    assert len(Ending) == 13
