"""What a scrape asks of the running services: does each still move? It costs a look at memory."""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.service import Periodic, Service
from taskengine.telemetry.metrics import Metrics


def watch_loops(
    metrics: Metrics, services: Sequence[Service], parts: Parts, identity: Identity
) -> None:
    """Their series exist from now on; a stall is shown at half of what ends the process.

    A daemon that drains has ended most of its loops: they stand still because they should.
    """
    limit = parts.config.heartbeat.stall_limit / 2

    def look() -> None:
        now = parts.clock.monotonic()
        for service in services:
            stalled = not identity.draining and service.stalled(now, limit)
            metrics.gauges.loop_stalled(service.name, stalled)

    for service in services:
        if isinstance(service, Periodic):
            metrics.series.know_loop(service.name)
    look()
    metrics.on_scrape.append(look)
