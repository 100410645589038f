"""Postgres away for a minute while fifty jobs run on two daemons."""

from __future__ import annotations

import asyncio
import time

from tests.drills.jobs import long
from tests.drills.site import Site, expect

_JOBS = 50
_AWAY = 60.0


async def run(site: Site) -> dict[str, float]:
    """Half of them end while it is away. Seconds from its return until all are settled."""
    site.daemon("\n[workers]\nslots = 25\n")
    site.daemon("\n[workers]\nslots = 25\n")
    await site.until_living(2)
    lengths = [_AWAY / 2 if number % 2 else _AWAY + 20 for number in range(_JOBS)]
    await site.engine.dispatch_many([long.call(seconds=seconds) for seconds in lengths])
    await site.until_count("state = 'running'", _JOBS)
    await asyncio.to_thread(site.servers.postgres.stop)
    await asyncio.sleep(_AWAY)
    await asyncio.to_thread(site.servers.postgres.start)
    begun = time.monotonic()
    await site.until_count("state = 'succeeded'", _JOBS // 2)
    first = time.monotonic() - begun
    await site.until_count("state = 'succeeded'", _JOBS)
    used = await site.count("attempt > 1 or orphanings > 0 or interruptions > 0")
    dead = await site.value("select count(*) from task_workers where dead_at is not null")
    expect(used == 0, f"{used} attempts were used")
    expect(dead == 0, f"{dead} daemons were declared dead")
    return {
        "those_ended_meanwhile_settled_s": first,
        "all_settled_s": time.monotonic() - begun,
        "declared_dead": dead,
        "attempts_used": used,
    }
