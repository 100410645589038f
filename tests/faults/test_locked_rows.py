"""A row that somebody has locked, or that cannot be written, holds up nobody but itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskengine.lifecycle.fetch import Fetcher
from taskengine.lifecycle.recover import bury, take_rows
from taskengine.store import executions
from tests.support.make import Hands, Told, a_job
from tests.support.until import until


async def _ended(hands: Hands, ids: list[int]) -> bool:
    rows = await hands.sql(
        "select from task_executions where id = any($1) and finished_at is not null", ids
    )
    return len(rows) == len(ids)


def counted(monkeypatch: pytest.MonkeyPatch, statement: str) -> list[str]:
    """One entry for each time that this statement on executions is sent."""
    real, sent = getattr(executions, statement), list[str]()

    async def sending(*args: Any) -> Any:
        sent.append(statement)
        return await real(*args)

    monkeypatch.setattr(executions, statement, sending)
    return sent


async def test_a_locked_pending_row_does_not_hold_up_the_claims_of_others(hands: Hands) -> None:
    await hands.know(a_job())
    ids = [(await hands.dispatch()).execution_id for _ in range(8)]
    locked, *others = ids
    async with hands.parts.store.transaction() as c:
        await c.execute("select from task_executions where id = $1 for update", locked)
        async with hands.working():
            await until(lambda: _ended(hands, others), 6.0)
    assert await hands.at(locked) == "delayed"


async def test_many_locked_pending_rows_cost_a_few_statements_and_not_some_each(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = counted(monkeypatch, "claim")
    await hands.know(a_job())
    ids = [(await hands.dispatch()).execution_id for _ in range(16)]
    locked, others = ids[::2], ids[1::2]
    async with hands.parts.store.transaction() as c:
        await c.execute("select from task_executions where id = any($1) for update", locked)
        async with hands.settling():
            await Fetcher(hands.crew).turn()
            await until(lambda: _ended(hands, others))
    assert len(tries) == 2
    assert {await hands.at(each) for each in locked} == {"delayed"}


@pytest.mark.parametrize(("end", "statement"), [("succeeds", "succeed"), ("fails", "settle")])
async def test_many_locked_running_rows_cost_a_few_statements_and_not_some_each(
    hands: Hands, end: str, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(ctx: object) -> None:
        if end == "fails":
            raise ValueError("no")

    tries = counted(monkeypatch, statement)
    monkeypatch.setattr("taskengine.lifecycle.settle._LOCKED_SECONDS", 3.0)
    await hands.know(a_job("work", body, max_attempts=1, notify_on_failure=False))
    ids = [(await hands.dispatch()).execution_id for _ in range(16)]
    locked, others = ids[::2], ids[1::2]
    await hands.reserve()
    flights = [hands.fly(claim) for claim in await hands.claim(*ids)]
    await until(lambda: all(flight.ended for flight in flights))
    async with hands.settling(), hands.parts.store.transaction() as c:
        await c.execute("select from task_executions where id = any($1) for update", locked)
        await until(lambda: _ended(hands, others))
        assert len(tries) == 2
    assert await _ended(hands, ids)


async def test_one_that_is_to_be_tried_again_while_its_batch_is_still_written_stays_known(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the beat takes its row for a stray, and its body runs once more."""
    monkeypatch.setattr("taskengine.lifecycle.settle._LOCKED_SECONDS", 0.0)
    await hands.know(a_job())
    ids = [(await hands.dispatch()).execution_id for _ in range(2)]
    locked, other = ids
    await hands.reserve()
    flights = {claim.id: hands.fly(claim) for claim in await hands.claim(*ids)}
    await until(lambda: all(flight.ended for flight in flights.values()))
    async with hands.settling():
        async with hands.parts.store.transaction() as c:
            await c.execute("select from task_executions where id = $1 for update", locked)
            await until(lambda: hands.crew.inflight.get(other) is None)
            assert hands.crew.inflight.get(locked) is flights[locked]
        await until(lambda: hands.crew.inflight.get(locked) is None)
    assert await _ended(hands, ids)
    assert hands.crew.settler.settled == 2


@pytest.mark.parametrize("end", ["succeeds", "fails"])
async def test_a_locked_running_row_does_not_hold_up_the_settlements_of_others(
    hands: Hands, end: str
) -> None:
    goes_on = asyncio.Event()

    async def body(ctx: object) -> None:
        await goes_on.wait()
        if end == "fails":
            raise ValueError("no")

    await hands.know(a_job("waits", body, max_attempts=1, notify_on_failure=False))
    ids = [(await hands.dispatch("waits")).execution_id for _ in range(8)]
    locked, *others = ids
    async with hands.working():
        await until(lambda: len(hands.crew.inflight) == 8)
        async with hands.parts.store.transaction() as c:
            await c.execute("select from task_executions where id = $1 for update", locked)
            goes_on.set()
            await until(lambda: _ended(hands, others), 6.0)
        await until(lambda: _ended(hands, ids))


@pytest.mark.parametrize("end", ["succeeds", "fails"])
@pytest.mark.parametrize("code", ["23514", "P0001", "XX001"])
async def test_a_row_that_cannot_be_settled_does_not_hold_up_the_others(
    hands: Hands, end: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(ctx: object) -> None:
        if end == "fails":
            raise ValueError("no")

    await hands.know(a_job("waits", body, max_attempts=1, notify_on_failure=False))
    ids = [(await hands.dispatch("waits")).execution_id for _ in range(8)]
    bad, *others = ids
    await hands.sql(
        "create function refuse() returns trigger language plpgsql as $$ begin "
        f"raise exception using errcode = '{code}', message = 'no'; end $$"
    )
    await hands.sql(
        "create trigger refuse before update on task_executions for each row "
        f"when (old.id = {bad} and new.finished_at is not null) execute function refuse()"
    )
    monkeypatch.setattr("taskengine.lifecycle.settle._REFUSED_SECONDS", 0.5)
    async with hands.working():
        await until(lambda: _ended(hands, others), 6.0)
        await hands.sql("drop trigger refuse on task_executions")
        await until(lambda: _ended(hands, ids))


@pytest.mark.parametrize("code", ["23514", "P0001", "XX001"])
async def test_a_row_that_cannot_be_claimed_does_not_hold_up_the_others(
    hands: Hands, code: str
) -> None:
    await hands.know(a_job())
    ids = [(await hands.dispatch()).execution_id for _ in range(8)]
    bad, *others = ids
    await hands.sql(
        "create function refuse() returns trigger language plpgsql as $$ begin "
        f"raise exception using errcode = '{code}', message = 'no'; end $$"
    )
    await hands.sql(
        "create trigger refuse before update on task_executions for each row "
        f"when (old.id = {bad} and new.state = 'running') execute function refuse()"
    )
    async with hands.working():
        await until(lambda: _ended(hands, others), 6.0)
    assert await hands.state(bad) == "failed"


async def test_a_dead_workers_row_that_cannot_be_moved_does_not_hold_up_its_others(
    hands: Hands, told: Told
) -> None:
    await hands.know(a_job())
    other = await Hands(hands.parts, "other").join()
    claims = []
    for _ in range(5):
        sent = await hands.dispatch()
        await hands.reserve()
        claims += await hands.claim(sent.execution_id, worker=other.worker_id)
    bad, *others = [claim.id for claim in claims]
    await hands.sql(
        "create function refuse() returns trigger language plpgsql as $$ begin "
        "raise exception 'no'; end $$"
    )
    await hands.sql(
        "create trigger refuse before update on task_executions for each row "
        f"when (old.id = {bad}) execute function refuse()"
    )
    other.die()
    assert await bury(hands.parts, other.worker_id, None, "hands") == 4
    assert {await hands.state(id_) for id_ in others} == {"pending"}
    assert [e["execution_id"] for e in told.of("execution.unsettled")] == [bad]
    await hands.sql("drop trigger refuse on task_executions")
    assert await take_rows(hands.parts, other.worker_id, "hands") == 1
    assert await hands.state(bad) == "pending"
