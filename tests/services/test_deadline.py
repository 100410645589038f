"""Step 5 of "The way of one execution": what becomes of a body at its deadline."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from taskengine.lifecycle import pilot
from tests.support.make import Hands, Told, a_job
from tests.support.until import until

TIMED_OUT = "timed out"


async def test_deadline_cancels_a_coroutine_and_it_is_retried_as_timed_out(hands: Hands) -> None:
    cleaned = []

    async def body(ctx: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(ctx.should_abort())

    await hands.know(a_job("work", body))
    row = await hands.run(timeout=0.05)
    assert (row["state"], row["attempt"], row["last_error"]) == ("pending", 2, TIMED_OUT)
    (line,) = await hands.sql("select move, reason from task_attempts")
    assert tuple(line.values()) == ("retried", "timed_out")
    assert cleaned == [True]
    assert hands.crew.inflight.busy == 0


async def test_deadline_of_a_coroutine_that_swallows_cancellation(
    hands: Hands, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settled a grace after its deadline, its slot freed, named and counted; its late result is
    fenced off."""
    monkeypatch.setattr(pilot, "_GRACE", 0.05)
    let_go = asyncio.Event()

    async def body(ctx: Any) -> str:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    await hands.know(a_job("work", body))
    row = await hands.run(timeout=0.05)
    assert (row["state"], row["last_error"]) == ("pending", TIMED_OUT)
    assert hands.crew.inflight.busy == 0
    (zombie,) = hands.crew.inflight.zombies
    assert [e["execution_id"] for e in told.of("execution.zombie")] == [row["id"]]
    assert hands.crew.inflight.known() == [row["id"]]  # no stray row, however long it lives

    await hands.make_due(row["id"])
    (current,) = await hands.claim(row["id"])
    async with hands.settling():
        let_go.set()
        await until(lambda: not hands.crew.inflight.zombies)
    assert zombie.task is not None
    await zombie.task
    assert [e["execution_id"] for e in told.of("execution.zombie_ended")] == [row["id"]]
    row = await hands.row(row["id"])
    assert (row["state"], row["claim_token"], row["result"]) == ("running", current.token, None)


async def test_deadline_of_a_thread_that_goes_on_keeps_its_slot_and_is_counted_as_lost(
    hands: Hands, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pilot, "_GRACE", 0.05)
    let_go = threading.Event()

    def body(ctx: Any) -> str:
        let_go.wait()
        return "too late"

    await hands.know(a_job("work", body))
    free = hands.crew.threads.free
    row = await hands.run(timeout=0.05)
    assert (row["state"], row["last_error"]) == ("pending", TIMED_OUT)
    assert (hands.crew.inflight.busy, hands.crew.threads.lost) == (1, 1)
    assert hands.crew.threads.free < free
    assert [e["execution_id"] for e in told.of("execution.thread_lost")] == [row["id"]]
    let_go.set()
    await until(lambda: hands.crew.threads.lost == 0)
    assert hands.crew.inflight.busy == 0
    assert hands.crew.threads.free == free
    assert await hands.row(row["id"]) == row


async def test_deadline_of_a_thread_that_looks_is_timed_out_by_itself(hands: Hands) -> None:
    def body(ctx: Any) -> None:
        while True:
            ctx.checkpoint()

    await hands.know(a_job("work", body))
    row = await hands.run(timeout=0.05)
    assert (row["state"], row["last_error"]) == ("pending", TIMED_OUT)
    assert hands.crew.threads.lost == 0


async def test_deadline_of_a_body_that_waits_for_a_thread_uses_no_attempt(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pilot, "_GRACE", 0.05)
    let_go, begun = threading.Event(), threading.Event()

    def body(ctx: Any) -> None:
        begun.set()
        let_go.wait(20)

    await hands.know(a_job("work", body))
    hands.crew.threads.resize(1)
    first = hands.fly(await hands.running())
    await until(begun.is_set)
    row = await hands.run(timeout=0.05)
    let_go.set()
    await until(lambda: first.ended)
    assert (row["state"], row["attempt"], row["last_error"]) == ("pending", 1, None)
    assert await hands.history(row["id"]) == ["released"]


async def test_deadline_met_by_a_body_that_ends_in_time_all_the_same_is_a_success(
    hands: Hands,
) -> None:
    """What returns within the grace has done its work."""

    async def body(ctx: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done in spite of it"
        return ""

    await hands.know(a_job("work", body))
    assert (await hands.run(timeout=0.05))["state"] == "succeeded"
