"""A loop that stands still is on the page before it ends the process; one that was ended is not."""

from __future__ import annotations

from dataclasses import replace

from taskengine.app.process import measure
from taskengine.app.watching import watch_loops
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.service import Periodic
from taskengine.telemetry.metrics import Metrics
from tests.support.fake_clock import FakeClock


class Loop(Periodic):
    """Its turn has begun when it is told so."""

    name = "some-loop"

    async def tick(self) -> bool:
        return False


def shown(metrics: Metrics) -> str:
    lines = metrics.render(None)[0].decode().splitlines()
    (line,) = [x for x in lines if x.startswith('taskengine_loop_stalled{loop="some-loop"}')]
    return line.split()[-1]


async def test_a_stall_is_shown_at_half_the_limit_and_not_while_draining(parts: Parts) -> None:
    clock, identity = FakeClock(), Identity("here/1")
    parts = replace(parts, clock=clock)
    metrics, loop = measure(parts), Loop(clock, 5.0)
    watch_loops(metrics, [loop], parts, identity)
    get = metrics.registry.get_sample_value
    for result in ("done", "away", "failed"):
        turns = {"loop": "some-loop", "result": result}
        assert get("taskengine_loop_turns_total", turns) == 0
    loop.progress()
    half = parts.config.heartbeat.stall_limit / 2
    await clock.advance(half)
    assert shown(metrics) == "0.0"
    await clock.advance(1.0)
    assert shown(metrics) == "1.0"
    identity.draining = True
    assert shown(metrics) == "0.0"
