"""Redis beyond its queues, and whether the three clocks agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from taskengine.broker.inspection import Inspection
from taskengine.insight import redis_state
from taskengine.insight.doctor.finding import Finding, finding
from taskengine.lifecycle.parts import Parts
from taskengine.store import doctor

_SKEW = 5.0
_FULL = 0.9


async def redis(parts: Parts) -> list[Finding]:
    """As far as INFO says so."""
    return list(judge_redis(await redis_state.info(parts)))


def judge_redis(told: Mapping[str, Any]) -> Iterator[Finding]:
    used, most = told.get("used_memory"), told.get("maxmemory")
    if isinstance(used, int) and isinstance(most, int) and 0 < _FULL * most < used:
        yield finding(
            "redis.memory", f"Redis uses {used:,} of {most:,} bytes: full, it refuses deliveries"
        )
    if told.get("role") == "slave":
        yield finding("redis.replica", "this Redis is a replica: it takes no deliveries")
    if told.get("rdb_last_bgsave_status") == "err":
        yield finding(
            "redis.bgsave", "Redis could not save its last snapshot: it may refuse deliveries"
        )


async def postgres_clock(parts: Parts) -> list[Finding]:
    """Due times are the database's, a webhook's signature is judged by the host's."""
    before = parts.clock.monotonic()
    async with parts.store.connection() as c:
        theirs = (await doctor.server(c)).now.timestamp()
    took = parts.clock.monotonic() - before
    return list(judge_clock("Postgres", parts.clock.now().timestamp() - theirs, took))


async def redis_clock(parts: Parts) -> list[Finding]:
    before = parts.clock.monotonic()
    theirs = await Inspection(parts.client, parts.keys).time()
    took = parts.clock.monotonic() - before
    return list(judge_clock("Redis", parts.clock.now().timestamp() - theirs, took))


def judge_clock(name: str, ahead: float, took: float) -> Iterator[Finding]:
    """`ahead`: how far this host is; `took`: how long asking took, and so how sure that is."""
    if abs(ahead) - took > _SKEW:
        which = "ahead of" if ahead > 0 else "behind"
        yield finding(
            "clock.skew", f"this host's clock is {abs(ahead):.0f} s {which} that of {name}", name
        )
