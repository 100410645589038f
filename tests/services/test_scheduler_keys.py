"""Keys of the job's own: used, held, redriven; a bad hook hurts only itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from taskengine.lifecycle.fire_keys import Hooks
from taskengine.lifecycle.parts import Parts
from taskengine.model.function_job import FunctionJob
from taskengine.model.surroundings import StoreInfo
from taskengine.services import scheduler as service
from tests.support.scheduling import NOON, World, at, scheduled


@pytest.fixture
def world(parts: Parts) -> Iterator[World]:
    world = World(parts)
    yield world
    world.close()


def hooked(name: str, key: str, **settings: Any) -> FunctionJob[[], None]:
    """A job that makes its own keys: `{time}` and `{store}` may stand in them."""
    body = scheduled(name, **settings)

    @body.scheduled
    def own(fire_time: datetime, store: StoreInfo | None) -> str:
        return key.format(time=fire_time.isoformat(), store=store.type_num if store else "")

    return body


async def row(world: World, name: str) -> Any:
    return (await world.sql("select * from task_executions where job = $1", name))[0]


async def test_a_hooks_key_is_used_and_kept_as_the_callers(world: World) -> None:
    await world.open_stores(a="UTC")
    await world.add(hooked("pay", "period:2026-22", scope="per_store"))
    await world.turn(at(12, 1))
    made = await row(world, "pay")
    assert (made["idempotency_key"], made["key_is_drawn"]) == ("period:2026-22:a", False)
    await world.end("succeeded", "pay")
    await world.turn(at(12, 2))
    assert len(await world.keys()) == 1
    assert await world.misses() == []


@pytest.mark.parametrize("state", ["failed", "cancelled"])
async def test_a_key_held_by_an_execution_that_stands_still_is_alerted_and_recorded(
    world: World, state: str
) -> None:
    """I5: no silent no-op."""
    await world.add(hooked("pay", "period"))
    await world.turn(at(12, 1))
    await world.end(state, "pay")
    await world.turn(at(12, 2))
    holder = (await row(world, "pay"))["id"]
    (miss,) = await world.misses()
    assert (miss.fire_time, miss.reason, miss.execution_id) == (
        at(12, 2),
        f"not run: held by {holder}",
        holder,
    )
    assert [each["held_by"] for each in world.told("schedule.held")] == [holder]
    assert (await row(world, "pay"))["state"] == state


async def test_by_policy_the_held_execution_is_redriven(world: World) -> None:
    await world.add(hooked("pay", "period", when_held="redrive"))
    await world.turn(at(12, 1))
    await world.end("failed", "pay")
    await world.parts.client.command("DEL", world.parts.keys.queue("default"))
    await world.turn(at(12, 2))
    assert (await row(world, "pay"))["state"] == "pending"
    assert (await world.misses(), await world.waiting()) == ([], 1)


async def test_a_held_execution_emptied_by_retention_is_recorded_not_redriven(
    world: World,
) -> None:
    await world.add(hooked("pay", "period", when_held="redrive"))
    await world.turn(at(12, 1))
    await world.end("failed", "pay")
    await world.sql("update task_executions set emptied_at = now()")
    await world.turn(at(12, 2))
    assert len(await world.misses()) == 1


async def test_a_failed_run_of_the_same_fire_time_has_had_its_run(world: World) -> None:
    await world.add(scheduled("totals"))
    await world.turn(at(12, 1))
    await world.end("failed", "totals")
    await world.sql("update task_job_definitions set fired_until = $1", NOON)
    await world.turn(at(12, 1, 30))
    assert await world.misses() == []


async def test_after_a_crash_and_a_failure_the_next_slot_runs(world: World) -> None:
    """C30, C31: no lock outlives a run; the engine's keys are a slot's own."""
    await world.add(scheduled("totals"))
    await world.turn(at(12, 1))
    await world.end("failed", "totals")
    await world.turn(at(12, 2))
    assert len(await world.keys()) == 2


async def test_a_hook_that_raises_keeps_its_window_and_stops_no_other(world: World) -> None:
    await world.open_stores(good="UTC", bad="UTC")
    body = scheduled("broken", scope="per_store")
    broken = True

    @body.scheduled
    def own(fire_time: datetime, store: StoreInfo | None) -> str | None:
        if broken and store is not None and store.type_num == "bad":
            raise ValueError("no pay period")
        return None

    await world.add(body, scheduled("healthy"))
    await world.turn(at(12, 1))
    assert await world.keys("healthy") == ["healthy:2026-11-02T12:01:00Z"]
    assert await world.keys("broken") == ["broken:2026-11-02T12:01:00Z:good"]
    assert await world.fired_until("broken") == NOON
    (told,) = world.told("schedule.hook_failed")
    assert (told["task"], told["count"], str(told["error"])) == ("broken", 1, "no pay period")
    broken = False
    await world.turn(at(12, 1, 30))
    assert len(await world.keys("broken")) == 2
    assert await world.misses() == []


@pytest.mark.parametrize("key", ["", "x" * 300, "nul\0"])
async def test_a_hooks_key_that_cannot_be_stored_counts_as_a_failed_hook(
    world: World, key: str
) -> None:
    await world.add(hooked("pay", key))
    await world.turn(at(12, 1))
    assert await world.fired_until("pay") == NOON
    assert len(world.told("schedule.hook_failed")) == 1


async def test_a_hook_that_hangs_is_waited_for_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "Hooks", lambda: Hooks(0.05))
    release = threading.Event()
    body = scheduled("hangs")

    @body.scheduled
    def own(fire_time: datetime, store: StoreInfo | None) -> None:
        release.wait(10)

    await world.add(body, scheduled("healthy"))
    scheduler = world.scheduler()
    await world.turn(at(12, 1), scheduler)
    await world.turn(at(12, 2), scheduler)
    release.set()
    assert len(await world.keys("healthy")) == 2
    assert "earlier turn" in str(world.told("schedule.hook_failed")[1]["error"])
    await asyncio.sleep(0.1)
