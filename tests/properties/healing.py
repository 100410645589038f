"""What the loops do by and by, at once: after it, nothing may be left undone (I1)."""

from __future__ import annotations

from taskengine.model.execution import Claim
from tests.properties.observer import messages, rows_of
from tests.properties.site import Daemon, Site
from tests.support.make import SUCCEEDED

_ROUNDS = 40


async def heal(site: Site, alive: list[Daemon], *, direct: bool) -> None:
    """Turn every loop of the living until every row has ended. `direct`: Redis is never asked."""
    for turn in range(_ROUNDS):
        await site.later(3600)
        first = turn % len(alive)  # who does not know a job must not always be the first to see it
        for daemon in alive[first:] + alive[:first]:
            await _beats(site, daemon)
            if not direct:
                await _sweeps(daemon)
            await _work(daemon, direct=direct)
        rows = await rows_of(site.parts)
        if all(row.ended for row in rows.values()) and (direct or await _is_silent(site)):
            return
    left = [row for row in rows.values() if not row.ended]
    raise AssertionError(f"after {_ROUNDS} rounds: {left}, {await messages(site.parts)}")


async def _beats(site: Site, daemon: Daemon) -> None:
    """Two beats, the second confirms strays; who is not alive has been silent for a lease."""
    for _ in range(2):
        await daemon.beat()
        daemon.forget_lost()
    for worker in await _silent(site):
        await daemon.silence(worker)
        await daemon.dead_workers.tick()
    while await daemon.dead_workers.tick():
        pass
    await daemon.over_time.tick()


async def _silent(site: Site) -> list[int]:
    """Workers that no living daemon is."""
    living = {daemon.worker_id for daemon in site.daemons}
    async with site.parts.store.connection() as c:
        found = await c.fetch(
            "select id from task_workers where dead_at is null and stopped_at is null order by id"
        )
    return [r["id"] for r in found if r["id"] not in living]


async def _sweeps(daemon: Daemon) -> None:
    await daemon.divergence.tick()
    await daemon.requeue.tick()
    await daemon.promoter.tick()
    await daemon.deliveries.tick()


async def _work(daemon: Daemon, *, direct: bool) -> None:
    """All that can be had, each with success."""
    await daemon.end(*((claim, SUCCEEDED) for claim in list(daemon.held)))
    while claims := await (take_direct(daemon) if direct else take(daemon)):
        await daemon.end(*((claim, SUCCEEDED) for claim in claims))


async def take(daemon: Daemon) -> list[Claim]:
    """One turn of the worker, by way of Redis; empty where nothing was reserved."""
    for _ in range(3):
        reserved = await daemon.reserve()
        if not reserved:
            return []
        acquirer = daemon.crew.acquirer
        claims = await acquirer.claim(reserved, daemon.worker_id)
        daemon.hold(claims)
        await acquirer.ack(claims)
        await acquirer.put_away(reserved, claims)
        if claims:
            return claims
    return []


async def take_direct(daemon: Daemon, n: int = 100) -> list[Claim]:
    """One turn of the worker, straight from Postgres."""
    limits = [(queue, n) for queue in daemon.parts.queues.names]
    jobs = daemon.crew.acquirer.jobs
    claims, _ = await daemon.crew.direct.claim(limits, n, daemon.worker_id, jobs)
    daemon.hold(claims)
    return claims


async def _is_silent(site: Site) -> bool:
    """No message is left over."""
    found = await messages(site.parts)
    return not found.waiting and not found.processing
