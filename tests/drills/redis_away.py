"""Redis stopped for a minute under a steady load: what the jobs see before, during and after."""

from __future__ import annotations

import asyncio
import time

from tests.drills.jobs import quick
from tests.drills.site import Site, expect

_RATE = 200  # jobs a second
_SLICES = 10  # dispatches a second, each of a tenth of the rate
_PHASE = 60.0  # seconds before, during and after

_FIGURES = """
select count(*), count(*) filter (where state = 'succeeded' and attempt = 1),
  percentile_cont(array[0.5, 0.99, 1]) within group (order by extract(epoch from claimed_at - created_at))
from task_executions
where job = 'drill-quick' and created_at >= to_timestamp($1) and created_at < to_timestamp($2)
"""
_CLAIMED = """
select count(*) / ($2::float8 - $1::float8) from task_executions
where job = 'drill-quick' and claimed_at >= to_timestamp($1) and claimed_at < to_timestamp($2)
"""


async def run(site: Site) -> dict[str, float]:
    """Jobs claimed a second, and the time from dispatch to claim, by the moment of the dispatch."""
    site.daemon()
    site.daemon()
    await site.until_living(2)
    load = asyncio.create_task(_load(site, 3 * _PHASE))
    edges = [time.time()]
    await asyncio.sleep(_PHASE)
    edges.append(time.time())
    await asyncio.to_thread(site.servers.valkey.stop)
    await asyncio.sleep(_PHASE)
    edges.append(time.time())
    await asyncio.to_thread(site.servers.valkey.start)
    dispatched = await load
    edges.append(time.time())
    await site.until_count("job = 'drill-quick' and state = 'succeeded'", dispatched)
    figures: dict[str, float] = {"dispatched": dispatched}
    phases = zip(("before", "during", "after"), edges[:-1], edges[1:], strict=True)
    for phase, begin, end in phases:
        figures |= await _figures(site, phase, begin, end)
    expect(await site.count("attempt > 1 or state <> 'succeeded'") == 0, "an attempt was used")
    return figures


async def _load(site: Site, seconds: float) -> int:
    """Dispatch at the rate; how many were answered. None may be refused: Postgres is there."""
    begun, dispatched = time.monotonic(), 0
    for turn in range(int(seconds * _SLICES)):
        await asyncio.sleep(max(0.0, begun + turn / _SLICES - time.monotonic()))
        calls = [quick.call() for _ in range(_RATE // _SLICES)]
        dispatched += len(await site.engine.dispatch_many(calls))
    return dispatched


async def _figures(site: Site, phase: str, begin: float, end: float) -> dict[str, float]:
    (row,) = await site.sql(_FIGURES, begin, end)
    p50, p99, longest = row[2]
    return {
        f"{phase}_claimed_per_second": await site.value(_CLAIMED, begin, end),
        f"{phase}_p50_s": p50,
        f"{phase}_p99_s": p99,
        f"{phase}_longest_s": longest,
    }
