"""A key hook that ends the process ends nothing but its own turn."""

from __future__ import annotations

import sys
from datetime import datetime

from taskengine.lifecycle.parts import Parts
from taskengine.model.surroundings import StoreInfo
from tests.support.scheduling import NOON, World, at, scheduled


async def test_sys_exit_in_a_hook_keeps_its_window_and_stops_no_other(parts: Parts) -> None:
    world = World(parts)
    body = scheduled("broken")

    @body.scheduled
    def own(fire_time: datetime, store: StoreInfo | None) -> str | None:
        sys.exit(0)

    await world.add(body, scheduled("healthy"))
    await world.turn(at(12, 1))
    assert await world.keys("healthy") == ["healthy:2026-11-02T12:01:00Z"]
    assert await world.fired_until("broken") == NOON
    (told,) = world.told("schedule.hook_failed")
    assert "SystemExit" in str(told["error"])
    world.close()
