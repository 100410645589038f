"""Whose claim it is while beats, claims and burials overtake each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from taskengine.errors import MigrationError, ServiceFailed
from taskengine.lifecycle.events import load_events
from taskengine.lifecycle.parts import Parts
from taskengine.model.context import JobContext
from taskengine.model.execution import Claim
from taskengine.services.heartbeat import Heartbeat
from tests.support.make import Hands, Told, a_job
from tests.support.until import until


async def test_a_claim_that_waits_for_its_webhook_event_is_no_stray(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beats that come between a claim's reply and its start must not give the row back."""
    begun: list[int] = []

    async def body(ctx: JobContext) -> None:
        begun.append(ctx.fence)

    await hands.know(a_job("slow-event", body))
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def events(parts: Parts, claims: Sequence[Claim]) -> Any:
        waits.set()
        await goes_on.wait()
        return await load_events(parts, claims)

    monkeypatch.setattr("taskengine.lifecycle.acquire.load_events", events)
    sent = await hands.dispatch("slow-event")
    async with hands.working():
        await waits.wait()
        for _ in range(3):
            await hands.beat()
        assert await hands.state(sent.execution_id) == "running"
        goes_on.set()

        async def succeeded() -> bool:
            return await hands.state(sent.execution_id) == "succeeded"

        await until(succeeded)
    assert begun == [1]
    assert await hands.history(sent.execution_id) == []
    assert not hands.crew.acquirer.claiming


async def test_a_worker_that_cannot_register_anew_ends_instead_of_idling(
    hands: Hands, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Declared dead, and the schema is not as it was: the process ends, systemd decides."""
    fresh = Hands(hands.parts, "fresh")
    heartbeat: Heartbeat = fresh.heartbeat
    running = asyncio.create_task(heartbeat.run(lambda: None))

    async def beaten() -> bool:
        rows = await hands.sql(
            "select from task_workers where id = $1 and beat > 1", fresh.worker_id
        )
        return bool(rows)

    await until(beaten)

    async def join() -> None:
        raise MigrationError("column does not exist: run `taskengine migrate up`")

    monkeypatch.setattr(fresh.membership, "join", join)
    await hands.sql("update task_workers set dead_at = now() where id = $1", fresh.worker_id)
    async with asyncio.timeout(5):
        with pytest.raises((ServiceFailed, MigrationError)):
            await running
    fresh.die()
