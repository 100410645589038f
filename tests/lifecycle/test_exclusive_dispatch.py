"""Where an exclusive key comes from: the caller, the job's class, its decorated function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from taskengine.client import TaskEngine
from taskengine.errors import InvalidSetting, KeyTooLong, PayloadError, UnknownStore
from taskengine.lifecycle.dispatch import Request
from taskengine.lifecycle.parts import Parts
from taskengine.model.class_job import ClassJob
from taskengine.model.context import JobContext
from taskengine.model.function_job import job
from taskengine.model.job import BaseJob
from taskengine.model.payload import JsonValue
from taskengine.model.surroundings import StoreInfo
from taskengine.services.webhooks import StrandedWebhooks
from taskengine.store import stores
from tests.support.make import Hands, a_job
from tests.support.scheduling import NOON, World, at, scheduled
from tests.support.webhooks import event, register, serving, with_sources

BAD = pytest.mark.parametrize(
    ("key", "error", "hint"),
    [
        ("x" * 256, KeyTooLong, "256 bytes"),
        ("é" * 128, KeyTooLong, "256 bytes"),
        ("", InvalidSetting, "empty"),
        ("a\0b", InvalidSetting, "NUL"),
        ("\ud83d", InvalidSetting, "surrogate"),
    ],
)


@job("pay")
async def pay(ctx: JobContext, employee: int, period: str = "2026-11") -> None:
    """One employee's pay."""


@pay.exclusive
def _one_employee(employee: int, period: str = "the job's own rules") -> str | None:
    if employee < 0:
        raise LookupError("no such employee")
    return None if employee == 0 else f"employee:{employee}:{period}"


class Close(BaseJob):
    """Closes a store's books; one store at a time."""

    name = "close"
    scope = "per_store"

    async def handle(self) -> None:
        """Nothing."""

    @classmethod
    def exclusive_key(cls, payload: Mapping[str, JsonValue], store: StoreInfo | None) -> str | None:
        assert store is not None
        return f"books:{store.type_num}:{store.time_zone}:{payload.get('day')}"


@pytest.fixture
async def engine(hands: Hands) -> TaskEngine:
    await hands.know(pay, ClassJob(Close), a_job("work"))
    async with hands.parts.store.connection() as c:
        for number, zone in (("0123", "Europe/Lisbon"), ("7", "UTC")):
            await stores.add(c, number, number, zone, None)
    return TaskEngine.of(hands.parts)


async def key_of(engine: TaskEngine, execution_id: int) -> str | None:
    return (await engine.get(execution_id)).exclusive_key


async def test_given_by_the_caller(engine: TaskEngine) -> None:
    sent = await engine.dispatch("work", exclusive_key="employee:7")
    assert await key_of(engine, sent.execution_id) == "employee:7"
    plain = await engine.dispatch("work")
    assert await key_of(engine, plain.execution_id) is None


async def test_computed_by_a_decorated_function_of_the_jobs_own_parameters(
    engine: TaskEngine,
) -> None:
    """A default that the dispatch left out is the job's; by name it is the same."""
    sent = await engine.dispatch(pay.call(7))
    assert await key_of(engine, sent.execution_id) == "employee:7:2026-11"
    named = await engine.dispatch("pay", {"employee": 8, "period": "2026-12"})
    assert await key_of(engine, named.execution_id) == "employee:8:2026-12"


async def test_a_hook_may_say_that_this_one_is_not_exclusive(engine: TaskEngine) -> None:
    sent = await engine.dispatch(pay.call(0))
    assert await key_of(engine, sent.execution_id) is None


async def test_the_callers_key_rules_over_the_hooks(engine: TaskEngine) -> None:
    sent = await engine.dispatch(pay.call(-1), exclusive_key="mine")  # the hook is not asked
    assert await key_of(engine, sent.execution_id) == "mine"


async def test_computed_by_a_class_that_is_told_its_store(engine: TaskEngine) -> None:
    sent = await engine.dispatch(Close.call(day=3), store="0123")
    assert await key_of(engine, sent.execution_id) == "books:0123:Europe/Lisbon:3"
    all_ = await engine.dispatch_stores(Close.call(day=4))
    keys = {await key_of(engine, each.execution_id) for each in all_}
    assert keys == {"books:0123:Europe/Lisbon:4", "books:7:UTC:4"}


async def test_a_store_that_is_closed_is_refused_before_any_hook(engine: TaskEngine) -> None:
    with pytest.raises(UnknownStore):
        await engine.dispatch(Close.call(day=3), store="0999")


async def test_many_and_stores_take_one_for_all(engine: TaskEngine) -> None:
    many = await engine.dispatch_many([pay.call(1), pay.call(2)])
    keys = [await key_of(engine, each.execution_id) for each in many]
    assert keys == ["employee:1:2026-11", "employee:2:2026-11"]
    given = await engine.dispatch_many([pay.call(1), pay.call(2)], exclusive_key="all")
    given += await engine.dispatch_stores(Close.call(day=1), exclusive_key="all")
    assert {await key_of(engine, each.execution_id) for each in given} == {"all"}


async def test_a_dispatch_that_finds_its_row_leaves_its_key(engine: TaskEngine) -> None:
    first = await engine.dispatch("work", key="k", exclusive_key="a")
    again = await engine.dispatch("work", key="k", exclusive_key="b")
    assert (again.execution_id, again.created) == (first.execution_id, False)
    assert await key_of(engine, first.execution_id) == "a"


async def test_a_redriven_one_keeps_its_key(engine: TaskEngine) -> None:
    sent = await engine.dispatch("work", exclusive_key="a")
    await engine.cancel(sent.execution_id)
    await engine.redrive(sent.execution_id)
    assert await key_of(engine, sent.execution_id) == "a"


# ---- what is refused -------------------------------------------------------------------------


@BAD
async def test_a_bad_key_is_refused_by_its_name(
    engine: TaskEngine, hands: Hands, key: str, error: type[Exception], hint: str
) -> None:
    with pytest.raises(error, match=hint) as refused:
        await engine.dispatch("work", exclusive_key=key)
    assert "exclusive_key" in str(refused.value)
    assert await hands.sql("select from task_executions") == []


@BAD
async def test_a_hooks_bad_key_is_refused_by_its_name(
    engine: TaskEngine, hands: Hands, key: str, error: type[Exception], hint: str
) -> None:
    bad = a_job("bad")

    @bad.exclusive
    def own() -> str:
        return key

    await hands.know(bad)
    with pytest.raises(error, match=hint) as refused:
        await engine.dispatch("bad")
    assert "exclusive_key of job 'bad'" in str(refused.value)


async def test_a_hook_that_raises_refuses_the_dispatch_by_its_name(
    engine: TaskEngine, hands: Hands
) -> None:
    with pytest.raises(InvalidSetting, match=r"exclusive_key of job 'pay' raised LookupError: no"):
        await engine.dispatch(pay.call(-1))
    with pytest.raises(InvalidSetting, match="exclusive_key of job 'pay'"):
        await engine.dispatch_many([pay.call(5), pay.call(-1)])
    assert await hands.sql("select from task_executions") == []


async def test_a_hook_that_exits_does_not_end_the_process(hands: Hands, engine: TaskEngine) -> None:
    leaving = a_job("leaving")

    @leaving.exclusive
    def leave() -> str:
        raise SystemExit(3)

    await hands.know(leaving)
    with pytest.raises(InvalidSetting, match="raised SystemExit: 3"):
        await engine.dispatch("leaving")


async def test_a_payload_that_does_not_fit_is_a_payload_error(hands: Hands) -> None:
    await hands.know(pay)
    with pytest.raises(PayloadError):
        await hands.dispatcher.dispatch(Request("pay", '{"employee": "seven"}'))


def test_hooks_that_are_coroutines_are_refused_where_they_are_declared() -> None:
    async def late() -> str:
        return "a"

    with pytest.raises(InvalidSetting, match="no coroutine"):
        a_job().exclusive(late)  # type: ignore[arg-type]

    class Late(BaseJob):
        name = "late"

        @classmethod
        async def exclusive_key(cls, payload: Any, store: Any) -> str:  # type: ignore[override]
            return "a"

    with pytest.raises(InvalidSetting, match="no coroutine"):
        ClassJob(Late)


# ---- scheduled fires and webhooks ----------------------------------------------------------------


async def test_a_scheduled_fire_asks_the_hook(parts: Parts) -> None:
    world = World(parts)
    nightly = scheduled("nightly")
    nightly.exclusive(lambda: "books")
    await world.add(nightly)
    await world.turn(at(12, 1))
    world.close()
    (row,) = await world.sql("select exclusive_key from task_executions")
    assert row["exclusive_key"] == "books"


async def test_a_hook_that_raises_at_a_scheduled_fire_does_not_move_fired_until(
    parts: Parts,
) -> None:
    world = World(parts)
    nightly, broken = scheduled("nightly"), True

    @nightly.exclusive
    def own() -> str:
        if broken:
            raise LookupError("no books")
        return "books"

    await world.add(nightly, scheduled("healthy"))
    await world.turn(at(12, 1))
    assert await world.keys("nightly") == []
    assert len(await world.keys("healthy")) == 1
    assert await world.fired_until("nightly") == NOON
    (told,) = world.told("schedule.hook_failed")
    assert "exclusive_key of job 'nightly' raised LookupError: no books" in str(told["error"])
    broken = False
    await world.turn(at(12, 1, 30))
    world.close()
    assert len(await world.keys("nightly")) == 1


async def test_a_webhooks_execution_asks_the_hook(parts: Parts) -> None:
    parts = replace(parts, config=with_sources(parts.config))
    parts.registry.add(ClassJob(_Event))
    await register(parts)
    async with serving(parts) as site:
        assert (await site.post(event())).json() == {"status": "accepted"}
        (row,) = await site.rows("select exclusive_key from task_executions")
        assert row["exclusive_key"] == "everee"


async def test_a_hook_that_raises_keeps_the_event_for_the_reconciler(parts: Parts) -> None:
    """The event is stored; each recovery asks again, and its error stops no other event."""
    parts = replace(parts, config=with_sources(parts.config))
    parts.registry.add(ClassJob(_Event))
    await register(parts)
    async with serving(parts) as site:
        await site.post(event(type_="bad"))
        assert await site.rows("select from task_executions") == []
        assert "raised ValueError" in site.told("webhook.undispatched")[0]["error"]
        await site.post(event("evt-2"))
        await site.rows("delete from task_executions")
        await site.rows(
            "update webhook_events set received_at = now() - interval '1 h',"
            " touched_at = now() - interval '1 h', recover_at = now() - interval '1 h'"
        )
        hands = await Hands(parts).join()
        await StrandedWebhooks(parts, hands.identity, hands.token, hands.dispatcher).tick()
        hands.die()
        assert len(await site.rows("select from task_executions")) == 1
        assert len(site.told("webhook.undispatched")) == 2


class _Event(BaseJob):
    """One event of a source at a time."""

    name = "payroll-event"

    async def handle(self) -> None:
        """Nothing."""

    @classmethod
    def exclusive_key(cls, payload: Mapping[str, JsonValue], store: StoreInfo | None) -> str | None:
        if payload["type"] == "bad":
            raise ValueError("no such type")
        return str(payload["source"])
