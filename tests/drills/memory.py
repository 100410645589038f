"""Redis loses its memory with 100,000 executions queued: all of it, one key, and an hour of it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time

from tests.drills.jobs import quick
from tests.drills.site import Site, expect

_QUEUED = 100_000
_OTHER = '\n[workers]\nqueues = ["high"]\n'  # so that nobody takes what is queued in `default`
_LOOK = 0.02


async def run(site: Site) -> dict[str, float]:
    """Seconds from each loss until every message is there again, in its order."""
    site.daemon(_OTHER)
    await site.until_living(1)
    await _dispatch(site, 1_000)
    old = await asyncio.to_thread(_copy, site)
    await _dispatch(site, _QUEUED - 1_000)
    await _until_queued(site)
    figures = {"queued": float(_QUEUED)}
    await site.redis("FLUSHALL")
    figures["flushall_s"] = await _until_queued(site)
    await site.redis("DEL", site.engine.parts.keys.queue("default"))
    figures["one_key_s"] = await _until_queued(site)
    await asyncio.to_thread(_restore, site, old)
    figures["older_file_s"] = await _until_queued(site)
    return figures


async def _dispatch(site: Site, count: int) -> None:
    for begin in range(0, count, 5_000):
        calls = [quick.call() for _ in range(min(5_000, count - begin))]
        await site.engine.dispatch_many(calls)


async def _until_queued(site: Site) -> float:
    """Seconds until all are in the queue; then they are compared, one by one, in their order."""
    key, begun = site.engine.parts.keys.queue("default"), time.monotonic()
    while await _depth(site, key) < _QUEUED:
        expect(time.monotonic() - begun < 300, "the messages have not come back")
        await asyncio.sleep(_LOOK)
    took = time.monotonic() - begun
    rows = await site.sql("select id from task_executions order by run_at, id")
    ids = [int(member) for member in await site.redis("ZRANGE", key, 0, -1)]
    scores = await site.value(
        "select count(*) from (select run_at, id, lead(run_at) over (order by ord) as next"
        " from unnest($1::bigint[]) with ordinality as u(id, ord) join task_executions using (id))"
        " as t where next < run_at",
        ids,
    )
    expect(len(ids) == len(rows) and {r[0] for r in rows} == set(ids), "not the same executions")
    expect(scores == 0, f"{scores} executions stand before an older one")
    return took


async def _depth(site: Site, key: str) -> int:
    try:
        return int(await site.redis("ZCARD", key))
    except Exception:  # it is being restarted
        return 0


def _copy(site: Site) -> str:
    """Its file as it is now, for later."""
    valkey = site.servers.valkey
    valkey.stop()
    old = f"{valkey.data}.old"
    subprocess.run(["cp", "-a", str(valkey.data), old], check=True)
    valkey.start()
    return old


def _restore(site: Site, old: str) -> None:
    valkey = site.servers.valkey
    valkey.stop()
    shutil.rmtree(valkey.data)
    subprocess.run(["cp", "-a", old, str(valkey.data)], check=True)
    valkey.start()
