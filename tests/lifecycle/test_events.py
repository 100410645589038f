"""An event takes effect once: effect, `processed_at` and the check of the claim are one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from taskengine.errors import ClaimLost, PayloadError
from taskengine.lifecycle.dispatch import Dispatcher, Request
from taskengine.lifecycle.events import AlreadyProcessed, WebhookEvent, load_events
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Claim
from taskengine.store import executions, webhooks
from taskengine.store.webhooks import NewEvent
from tests.support.webhooks import register

JOB = "payroll-event"


class World:
    """One stored event, and executions that are about it."""

    def __init__(self, parts: Parts, worker: int, event: int) -> None:
        self.parts = parts
        self.worker = worker
        self.event = event
        self._dispatcher = Dispatcher(parts)
        self._tokens = iter(range(1, 100))

    async def claim(self, subject: str | None = None) -> Claim:
        """A running execution about the event, under a token of its own."""
        asked = Request(JOB, subject=subject or f"webhook:{self.event}")
        made = await self._dispatcher.dispatch(asked)
        return await self.claim_again(made.execution_id)

    async def claim_again(self, execution_id: int) -> Claim:
        async with self.parts.store.connection() as c:
            [claim] = await executions.claim(
                c, [execution_id], self.worker, next(self._tokens), [JOB]
            )
        return claim

    async def view(self, claim: Claim) -> WebhookEvent:
        return (await load_events(self.parts, [claim]))[claim.id]

    async def lose(self, claim: Claim) -> None:
        """Recovery takes the claim away."""
        await self.sql(
            "update task_executions set state = 'pending', claim_token = null where id = $1",
            claim.id,
        )

    async def sql(self, statement: str, *arguments: Any) -> list[Any]:
        async with self.parts.store.connection() as c:
            return await c.fetch(statement, *arguments)

    async def processed(self) -> bool:
        [row] = await self.sql("select processed_at from webhook_events where id = $1", self.event)
        return row["processed_at"] is not None

    async def effects(self) -> int:
        return len(await self.sql("select from effects"))


@pytest_asyncio.fixture
async def world(parts: Parts) -> AsyncIterator[World]:
    await register(parts)
    async with parts.store.connection() as c:
        await c.execute("create table effects (n int)")
        worker = await c.fetchval(
            "insert into task_workers (name, host, pid, boot_id, version, queues, jobs, slots)"
            " values ('w', 'h', 1, 'b', '1', '{}', '{}', 1) returning id"
        )
        new = NewEvent("everee", "evt-1", "t", "received", b'{"a": 1.10}', b"x", "{}", None, None)
        event = await webhooks.insert(c, new)
    assert event is not None
    yield World(parts, worker, event)


EFFECT = "insert into effects values (1)"


async def take_effect(event: WebhookEvent, then: Callable[[], Awaitable[None]]) -> None:
    """A job's body: its effect, and what happens before its transaction ends."""
    async with event.processing() as c:
        await c.execute(EFFECT)
        await then()


async def test_a_job_sees_its_event(world: World) -> None:
    event = await world.view(await world.claim())
    assert (event.id, event.source, event.type) == (world.event, "everee", "t")
    assert event.body == b'{"a": 1.10}'
    assert str(event.json()) == "{'a': Decimal('1.10')}"
    assert event.received_at.tzinfo is not None
    assert event.occurred_at is None


async def test_effect_and_mark_are_one(world: World) -> None:
    event = await world.view(await world.claim())
    async with event.processing() as c:
        await c.execute(EFFECT)
        assert not await world.processed()
    assert await world.processed()
    assert await world.effects() == 1


async def test_an_error_in_the_body_keeps_nothing_and_stays_the_same_error(world: World) -> None:
    event = await world.view(await world.claim())
    for error in (OSError("mine"), ValueError("mine"), KeyError("mine")):

        async def fail(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            await take_effect(event, fail)
        assert caught.value is error
    assert not await world.processed()
    assert await world.effects() == 0


async def test_a_claim_lost_before_is_refused_before_the_body(world: World) -> None:
    claim = await world.claim()
    event = await world.view(claim)
    await world.lose(claim)
    with pytest.raises(ClaimLost):
        async with event.processing():
            pytest.fail("the body has run")


async def test_a_claim_lost_meanwhile_keeps_nothing(world: World) -> None:
    claim = await world.claim()
    event = await world.view(claim)
    with pytest.raises(ClaimLost):
        await take_effect(event, lambda: world.lose(claim))
    assert not await world.processed()
    assert await world.effects() == 0


async def test_the_next_attempt_takes_over(world: World) -> None:
    first = await world.claim()
    old = await world.view(first)
    await world.lose(first)
    new = await world.view(await world.claim_again(first.id))
    async with new.processing() as c:
        await c.execute(EFFECT)
    with pytest.raises(ClaimLost):
        async with old.processing() as c:
            await c.execute(EFFECT)
    assert await world.effects() == 1


async def test_an_attempt_after_the_effect_does_not_repeat_it(world: World) -> None:
    first = await world.claim()
    async with (await world.view(first)).processing() as c:
        await c.execute(EFFECT)
    await world.lose(first)
    again = await world.view(await world.claim_again(first.id))
    with pytest.raises(AlreadyProcessed):
        async with again.processing():
            pytest.fail("the body has run")


async def test_two_executions_of_one_event_take_effect_once(world: World) -> None:
    async def work(event: WebhookEvent) -> None:
        async with event.processing() as c:
            await asyncio.sleep(0.02)
            await c.execute(EFFECT)

    views = [await world.view(await world.claim()) for _ in range(4)]
    answers = await asyncio.gather(*(work(v) for v in views), return_exceptions=True)
    assert sorted(type(a).__name__ for a in answers) == ["AlreadyProcessed"] * 3 + ["NoneType"]
    assert await world.effects() == 1


async def test_one_run_may_go_on_in_a_second_transaction(world: World) -> None:
    event = await world.view(await world.claim())
    for _ in range(2):
        async with event.processing() as c:
            await c.execute(EFFECT)
    assert await world.effects() == 2


async def test_progress_and_cursor_are_written_meanwhile(world: World) -> None:
    claim = await world.claim()
    event = await world.view(claim)
    async with asyncio.timeout(5), event.processing() as c:
        await c.execute(EFFECT)
        async with world.parts.store.connection() as other:
            assert await executions.save_cursor(other, claim.id, claim.token, "1")
            await executions.progress(other, [(claim.id, claim.token, 50, None)])
    assert await world.effects() == 1


async def test_only_subjects_that_are_events_are_looked_up(world: World) -> None:
    subjects = ["webhook:99999", "webhook:x", "webhook:" + "9" * 30, "order:7"]
    claims = [await world.claim(subject) for subject in subjects]
    about = await world.claim()
    assert set(await load_events(world.parts, [*claims, about])) == {about.id}
    assert await load_events(world.parts, claims[1:]) == {}


async def test_a_body_that_retention_took_is_empty(world: World) -> None:
    claim = await world.claim()
    await world.sql("update webhook_events set body = null")
    event = await world.view(claim)
    assert event.body == b""
    with pytest.raises(PayloadError):
        event.json()


# ---- what the settlement writes ---------------------------------------------------------------


async def test_a_success_marks_what_its_body_did_not(world: World) -> None:
    async with world.parts.store.connection() as c:
        assert await webhooks.processed_by_success(c, [world.event]) == {world.event: "everee"}
        assert await webhooks.processed_by_success(c, [world.event]) == {}
    assert await world.processed()


async def test_a_discard_writes_its_reason_once(world: World) -> None:
    async with world.parts.store.connection() as c:
        assert await webhooks.fail(c, [world.event], ["no such employee"]) == {world.event}
        assert await webhooks.fail(c, [world.event], ["again"]) == set()
    [row] = await world.sql("select error, processed_at from webhook_events")
    assert (row["error"], row["processed_at"]) == ("no such employee", None)


async def test_nobody_waits_for_an_event_that_is_being_processed(world: World) -> None:
    event = await world.view(await world.claim())
    async with asyncio.timeout(5), event.processing(), world.parts.store.connection() as c:
        assert await webhooks.processed_by_success(c, [world.event]) == {}
        assert await webhooks.fail(c, [world.event], ["x"]) == set()
    assert await world.processed()
