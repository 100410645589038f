"""What the client is asked about one execution, and when an execution for each store is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from taskengine.client import TaskEngine
from taskengine.errors import ExecutionNotFound
from taskengine.store import logs, stores
from taskengine.store.logs import NewLine
from tests.support.make import FAILED, Hands, a_job


@pytest.fixture
async def engine(hands: Hands) -> TaskEngine:
    await hands.know(a_job("work"), a_job("each", scope="per_store"))
    async with hands.parts.store.connection() as c:
        for number in ("1", "2"):
            await stores.add(c, number, f"Store {number}", "UTC", None)
    return TaskEngine.of(hands.parts)


async def test_the_history_of_an_execution(engine: TaskEngine, hands: Hands) -> None:
    claim = await hands.running()
    await hands.settle(claim, FAILED)
    (attempt,) = await engine.history(claim.id)
    assert (attempt.move, attempt.error, attempt.worker) == ("retried", "ValueError: no", "hands")


async def test_the_log_of_an_execution(engine: TaskEngine, hands: Hands) -> None:
    sent = await engine.dispatch("work")
    at = hands.parts.clock.now()
    lines = [NewLine(sent.execution_id, 1, at, "info", f"page {n}", None) for n in range(3)]
    async with hands.parts.store.connection() as c:
        await logs.append(c, lines)
    assert [line.message for line in await engine.logs(sent.execution_id, 2)] == [
        "page 0",
        "page 1",
    ]


async def test_why_an_execution_waits(engine: TaskEngine) -> None:
    sent = await engine.dispatch("work", delay=600)
    told = await engine.why(sent.execution_id)
    assert (told.execution_id, told.code) == (sent.execution_id, "pending.early")


async def test_what_does_not_exist_is_not_found(engine: TaskEngine) -> None:
    for ask in (engine.history, engine.logs, engine.why):
        with pytest.raises(ExecutionNotFound):
            await ask(999_999_999)


async def test_for_each_store_later(engine: TaskEngine, hands: Hands) -> None:
    at = datetime(2040, 1, 1, tzinfo=UTC)
    for sent in await engine.dispatch_stores("each", run_at=at):
        assert (await engine.get(sent.execution_id)).run_at == at
    for sent in await engine.dispatch_stores("each", delay=timedelta(hours=1)):
        found = await engine.get(sent.execution_id)
        assert found.run_at - found.created_at == timedelta(hours=1)
        assert await hands.at(sent.execution_id) == "delayed"
