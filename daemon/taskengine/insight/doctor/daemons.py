"""What runs although its worker is gone or its time is over, and loops that turn nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from taskengine.config import Config
from taskengine.insight.doctor.finding import Finding, finding
from taskengine.insight.words import plural, span
from taskengine.lifecycle.parts import Parts
from taskengine.store import doctor, workers
from taskengine.store.doctor import Lapsed

MOST = 1000
_LATE = 60.0  # a worker settles one second after the deadline
_EVERY = 60.0  # of loops whose interval is not configured, at the most
_PATIENCE = 60.0


async def left_running(parts: Parts) -> list[Finding]:
    """Rows under workers that are dead or have stopped: recovery takes them within seconds."""
    async with parts.store.connection() as c:
        rows = await doctor.under_dead(c, MOST)
    if not rows:
        return []
    names = sorted({row.worker for row in rows})
    text = (
        f"{plural(len(rows), 'execution')} run under workers that are gone ({', '.join(names[:3])}): "
        "no daemon has taken them over"
    )
    return [finding("worker.left_running", text, ids=[row.id for row in rows])]


async def past_deadline(parts: Parts) -> list[Finding]:
    """Rows that their worker should have settled long ago."""
    async with parts.store.connection() as c:
        ids = await doctor.past_deadline(c, _LATE, MOST)
    if not ids:
        return []
    text = (
        f"{plural(len(ids), 'execution')} run although the deadline is over for {_LATE:.0f} s; "
        "after another timeout recovery takes those that their worker does not hold"
    )
    return [finding("execution.past_deadline", text, ids=ids)]


async def leases(parts: Parts) -> list[Finding]:
    """Sweeps that no living daemon has held the lease of for twice their interval."""
    async with parts.store.connection() as c:
        lapsed = await doctor.lapsed(c)
        living = await workers.living(c)
    return list(judge_leases(lapsed, intervals(parts.config))) if living else []


def judge_leases(lapsed: Sequence[Lapsed], every: Mapping[str, float]) -> Iterator[Finding]:
    for each in lapsed:
        if each.name in every and each.seconds > 2 * every[each.name] + _PATIENCE:
            text = (
                f"the loop {each.name!r} has turned nowhere for {span(each.seconds)}, its lease was "
                f"last held by {each.holder}"
            )
            yield finding("lease.stale", text, each.name)


def intervals(config: Config) -> Mapping[str, float]:
    """How often each sweep under a lease turns; only of those that this configuration has."""
    recovery = config.recovery
    of_redis = {"deliveries": recovery.delivery_sweep, "divergence": recovery.divergence}
    return {
        **(of_redis if config.redis.enabled else {}),
        "over_time": recovery.over_time_sweep,
        "webhooks": config.webhooks.every,
        "retention": config.retention.every,
        "neglect": _EVERY,
        "gauges": _EVERY,
    }
