"""Stranded events are found again: stale and unclaimed, touched first, capped, and not for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from taskengine.config import Config
from taskengine.errors import StoreUnavailable
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.dispatch import Dispatcher, Request
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.reprocess import reprocess
from taskengine.model.execution import Dispatched
from taskengine.model.keys import webhook_recovery_key
from taskengine.services.webhooks import StrandedWebhooks
from taskengine.store import reports, webhooks
from taskengine.store.webhooks import NewEvent
from taskengine.telemetry.events import subscribe
from tests.support.fake_clock import FakeClock
from tests.support.webhooks import register, with_sources

HOUR = 3600.0


@pytest.fixture
def config(config: Config) -> Config:
    return with_sources(config, limit=3)


class World:
    """Events of made-up ages, and a reconciler whose minute can be moved."""

    def __init__(self, parts: Parts) -> None:
        self.clock = FakeClock()
        self.parts = replace(parts, clock=self.clock)
        self.dispatcher = Dispatcher(self.parts)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.close = subscribe(lambda name, fields: self.events.append((name, dict(fields))))

    def reconciler(self, dispatcher: Dispatcher | None = None) -> StrandedWebhooks:
        return StrandedWebhooks(self.parts, Identity(name="here"), 7, dispatcher or self.dispatcher)

    async def turn(self, dispatcher: Dispatcher | None = None) -> None:
        """One turn, a minute after the one before."""
        assert await self.reconciler(dispatcher).tick() is False
        await self.clock.advance(60)

    async def event(self, name: str = "evt", age: float = HOUR, **columns: Any) -> int:
        """A stored event, received `age` seconds ago."""
        new = NewEvent("everee", name, "payment.paid", "received", b"{}", b"x", "{}", None, None)
        async with self.parts.store.connection() as c:
            event_id = await webhooks.insert(c, new._replace(**columns))
        await self.sql(
            "update webhook_events set received_at = now() - $2 * interval '1 s' where id = $1",
            event_id,
            age,
        )
        assert event_id is not None
        return event_id

    async def time_passes(self) -> None:
        """The next recovery of every event is due."""
        await self.sql("update webhook_events set recover_at = now() - interval '1 s'")

    async def all_fail(self) -> None:
        await self.sql(
            "update task_executions set state = 'failed', finished_at = now(), claim_token = null"
        )

    async def sql(self, statement: str, *arguments: Any) -> list[Any]:
        async with self.parts.store.connection() as c:
            return await c.fetch(statement, *arguments)

    async def keys(self) -> list[str]:
        rows = await self.sql("select idempotency_key as key from task_executions order by id")
        return [row["key"] for row in rows]

    async def row(self, event_id: int) -> Any:
        [row] = await self.sql("select * from webhook_events where id = $1", event_id)
        return row

    def told(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.events if event == name]


@pytest_asyncio.fixture
async def world(parts: Parts) -> AsyncIterator[World]:
    world = World(parts)
    await register(world.parts)
    yield world
    world.close()


# ---- what it does ------------------------------------------------------------------------------


async def test_a_stranded_event_is_dispatched_under_a_key_of_its_minute(world: World) -> None:
    event = await world.event()
    key = webhook_recovery_key(event, world.clock.now())
    await world.turn()
    [made] = await world.sql("select *, payload::text as text from task_executions")
    assert key == f"webhook-recovery:{event}:2026-11-02T12:00Z"
    assert (made["idempotency_key"], made["subject"]) == (key, f"webhook:{event}")
    assert (made["job"], made["queue"], made["key_is_drawn"]) == ("payroll-event", "payroll", True)
    assert f'"webhook_event_id": {event}' in made["text"]
    waiting = await world.parts.client.command("ZRANGE", world.parts.keys.queue("payroll"), 0, -1)
    assert [int(each) for each in waiting] == [made["id"]]
    assert world.told("webhook.recovered") == [{"source": "everee", "count": 1}]


async def test_a_failed_execution_under_the_ingest_key_does_not_make_it_a_silent_no_op(
    world: World,
) -> None:
    """The trap: the ingest's key is held by an execution that will never run again."""
    event = await world.event()
    await world.dispatcher.dispatch(
        Request("payroll-event", key=f"webhook:{event}", subject=f"webhook:{event}")
    )
    await world.all_fail()
    await world.turn()
    assert len(await world.keys()) == 2
    assert await world.sql("select from task_executions where state = 'pending'")


async def test_the_event_is_touched_before_the_dispatch(world: World) -> None:
    event = await world.event()
    seen: list[int] = []

    class Watching(Dispatcher):
        async def dispatch(self, request: Request) -> Dispatched:
            seen.append((await world.row(event))["recoveries"])
            raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        await world.turn(Watching(world.parts))
    assert seen == [1]
    row = await world.row(event)
    assert row["touched_at"] > row["received_at"]
    await world.turn()
    assert await world.keys() == []


async def test_recoveries_come_at_doubling_distances(world: World) -> None:
    event = await world.event()
    waits: list[float] = []
    for _ in range(5):
        await world.turn()
        row = await world.row(event)
        waits.append((row["recover_at"] - row["touched_at"]).total_seconds())
        await world.all_fail()
        await world.time_passes()
    assert waits == [300, 600, 1200, 2400, 4800]
    assert len(set(await world.keys())) == 5


async def test_after_max_recoveries_it_is_marked_with_one_notice(world: World) -> None:
    event = await world.event()
    for _ in range(8):
        await world.turn()
        await world.all_fail()
        await world.time_passes()
    row = await world.row(event)
    assert row["error"] == "not processed after 5 recoveries"
    assert row["recoveries"] == len(await world.keys()) == 5
    assert world.told("webhook.abandoned") == [
        {"event_id": event, "source": "everee", "recoveries": 5}
    ]


async def test_the_oldest_come_first_and_a_turn_is_capped(world: World) -> None:
    ages = [HOUR * n for n in (2, 5, 1, 4, 3)]
    ids = [await world.event(f"e{age}", age) for age in ages]
    await world.turn()
    dispatched = {int(key.split(":")[1]) for key in await world.keys()}
    assert dispatched == {ids[1], ids[3], ids[4]}
    await world.turn()
    assert len(await world.keys()) == 5


async def test_two_daemons_do_not_recover_one_event_twice(world: World) -> None:
    await world.event()
    await world.turn()
    await world.sql("delete from task_leases")
    await world.turn()
    assert len(await world.keys()) == 1


async def test_another_daemon_has_the_lease(world: World) -> None:
    await world.event()
    await world.sql(
        "insert into task_leases values ('webhooks', 'there', 1, now() + interval '1 min')"
    )
    await world.turn()
    assert await world.keys() == []


# ---- what it refuses ---------------------------------------------------------------------------


async def untouched(world: World, event: int) -> bool:
    row = await world.row(event)
    return row["recoveries"] == 0 and row["error"] is None


async def test_a_fresh_event_is_left_alone(world: World) -> None:
    event = await world.event(age=299)
    await world.turn()
    assert await untouched(world, event)
    assert await world.keys() == []


@pytest.mark.parametrize("age", [0, -5])
async def test_a_min_age_of_nothing_means_the_default(world: World, age: int) -> None:
    config = with_sources(world.parts.config, min_age=age)
    world.parts = replace(world.parts, config=config)
    fresh, stale = await world.event("a", age=299), await world.event("b", age=301)
    await world.turn()
    assert await untouched(world, fresh)
    assert not await untouched(world, stale)


@pytest.mark.parametrize("state", ["pending", "running"])
async def test_an_event_with_a_living_execution_is_left_alone(world: World, state: str) -> None:
    event = await world.event()
    await world.dispatcher.dispatch(Request("payroll-event", subject=f"webhook:{event}"))
    if state == "running":
        await world.sql("update task_executions set state = 'running', claim_token = 1")
    await world.turn()
    assert await untouched(world, event)
    assert len(await world.keys()) == 1


@pytest.mark.parametrize(
    "column",
    ["processed_at = now()", "error = 'discarded'", "status = 'ignored'", "status = 'invalid'"],
)
async def test_what_is_processed_marked_or_not_to_be_run_is_left_alone(
    world: World, column: str
) -> None:
    await world.event()
    await world.sql(f"update webhook_events set {column}")
    await world.turn()
    assert await world.keys() == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("delete from task_job_definitions", "no definition"),
        ("update task_job_definitions set is_enabled = false", "disabled"),
        ("update task_job_definitions set scope = 'per_store'", "per store"),
    ],
)
async def test_a_job_that_takes_nothing_is_one_alert_and_nothing_is_touched(
    world: World, change: str, why: str
) -> None:
    event = await world.event()
    await world.sql(change)
    await world.turn()
    assert await untouched(world, event)
    [alert] = world.told("webhook.blocked")
    assert (alert["source"], alert["task"]) == ("everee", "payroll-event")
    assert why in alert["reason"]


async def test_an_unlisted_queue_blocks_where_the_source_names_no_other(world: World) -> None:
    event = await world.event()
    await world.sql("update task_job_definitions set queue = 'gone'")
    source = world.parts.config.webhooks.sources["everee"].model_copy(update={"queue": None})
    webhooks_ = world.parts.config.webhooks.model_copy(update={"sources": {"everee": source}})
    listed = world.parts
    config = world.parts.config.model_copy(update={"webhooks": webhooks_})
    world.parts = replace(world.parts, config=config)
    await world.turn()
    assert await untouched(world, event)
    assert "gone" in world.told("webhook.blocked")[0]["reason"]
    world.parts = listed
    await world.turn()
    assert len(await world.keys()) == 1


async def test_redis_away_is_found_out_only_after_the_definition(world: World) -> None:
    """A missing migration must not look like a failure of Redis: nothing asks Redis before."""
    await world.event()
    await world.sql("delete from task_job_definitions")

    class Never(Dispatcher):
        async def dispatch(self, request: Request) -> Dispatched:
            pytest.fail("dispatched")

    await world.turn(Never(world.parts))


# ---- an operator has them processed again -------------------------------------------------------


async def test_an_operator_may_reprocess_anything_that_still_has_its_body(world: World) -> None:
    fresh = await world.event("fresh", age=0)
    failed = await world.event("failed", error="discarded")
    ignored = await world.event("ignored", status="ignored")
    emptied = await world.event("emptied")
    await world.sql("update webhook_events set body = null where id = $1", emptied)
    async with world.parts.store.connection() as c:
        listed = await webhooks.unprocessed(c)
    assert {each.id for each in listed} == {fresh, failed, emptied}
    done = await reprocess(
        world.parts, world.dispatcher, ids=[fresh, failed, ignored, emptied, 999]
    )
    sent = {each.event.id: each.sent for each in done if each.sent is not None}
    assert all(each.created for each in sent.values())
    assert {event: each.key.rsplit(":", 4)[0] for event, each in sent.items()} == {
        each: f"webhook-manual:{each}" for each in (fresh, failed, ignored)
    }
    assert [each.event.id for each in done if each.problem] == [emptied]
    row = await world.row(failed)
    assert (row["error"], row["status"], row["recoveries"]) == (None, "received", 0)


async def test_an_event_that_cannot_be_dispatched_is_not_touched(world: World) -> None:
    event = await world.event(error="discarded")
    await world.sql("update task_job_definitions set is_enabled = false")
    [refused] = await reprocess(world.parts, world.dispatcher, ids=[event])
    assert "jobs enable payroll-event" in (refused.problem or "")
    assert (await world.row(event))["error"] == "discarded"
    foreign = await world.event(source="gone")
    [refused] = await reprocess(world.parts, world.dispatcher, ids=[foreign])
    assert "webhooks.sources.gone" in (refused.problem or "")


async def test_events_are_listed_with_filters_and_counted(world: World) -> None:
    one = await world.event("one", age=100)
    await world.event("two", error="bad")
    await world.event("three", status="invalid", source="other")
    async with world.parts.store.connection() as c:
        assert [e.event_id for e in await webhooks.list_(c)] == ["three", "two", "one"]
        assert [e.id for e in await webhooks.list_(c, failed=False, status="received")] == [one]
        assert [e.event_id for e in await webhooks.list_(c, source="other")] == ["three"]
        assert await webhooks.list_(c, processed=True) == []
        [count] = await reports.webhooks(c, 300.0)
    assert (count.source, count.unprocessed, count.stranded) == ("everee", 1, 0)
    assert count.oldest == pytest.approx(100, abs=5)
