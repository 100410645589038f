"""A worker is killed with fifty jobs in flight while another daemon lives."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.drills.jobs import killed
from tests.drills.site import Site

_JOBS = 50


async def run(site: Site) -> dict[str, float]:
    """Seconds from SIGKILL until all are pending and pushed, and until the last is claimed again.

    Twice: on one host the lock file tells of the death; without it (another host) only silence does.
    """
    figures: dict[str, float] = {}
    for how, hidden in (("same_host", False), ("other_host", True)):
        found = await _once(site, hidden=hidden)
        figures |= {f"{how}_{name}": value for name, value in found.items()}
    return figures


async def _once(site: Site, *, hidden: bool) -> dict[str, float]:
    await site.sql("truncate task_executions cascade")
    doomed = site.daemon()
    await site.until_living(1)
    await site.engine.dispatch_many([killed.call() for _ in range(_JOBS)])
    await site.until_count("state = 'running'", _JOBS)
    survivor = site.daemon()
    await site.until_living(2)
    await asyncio.sleep(5)  # it has seen the other one beat
    if hidden:
        await _hide_locks(site)
    doomed.kill()
    begun = time.monotonic()
    await site.until_count("state <> 'running' or attempt > 1", _JOBS)
    pending = time.monotonic() - begun
    await site.until_count("attempt = 2 and state in ('running', 'succeeded')", _JOBS)
    claimed = time.monotonic() - begun
    await site.until_count("attempt = 2 and orphanings = 1 and state = 'succeeded'", _JOBS)
    await asyncio.to_thread(survivor.stop)
    return {"pending_again_s": pending, "last_claimed_s": claimed}


async def _hide_locks(site: Site) -> None:
    """As if it ran elsewhere: a file that is not there proves nothing."""
    for row in await site.sql("select lock_path from task_workers where stopped_at is null"):
        if row[0]:
            Path(row[0]).unlink(missing_ok=True)
