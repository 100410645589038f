"""What Redis (or Valkey) is, and whether its memory can be relied on, as far as it says so itself.

Guarantees: never raises because Redis is away, restricted or strange: what cannot be known is None
or a word of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskengine.broker.inspection import Inspection, Strange
from taskengine.broker.queue import Depth
from taskengine.errors import BrokerUnavailable
from taskengine.lifecycle.parts import Parts
from taskengine.store import engine
from taskengine.store.pool import Connection
from taskengine.telemetry.redact import clean_text

SAFE_POLICY = "noeviction"
OFF, AWAY, FOREIGN, FORGETFUL, GOOD = "off", "away", "foreign", "forgetful", "good"


@dataclass(frozen=True, slots=True)
class RedisState:
    """`memory`: good; off (by configuration); away; foreign (another database's); forgetful (not
    rebuilt since it lost or changed its memory). `policy`: which keys it may evict. `strange`: keys
    of ours that hold something else (then no depth is known)."""

    memory: str
    server: str = "redis"
    version: str | None = None
    policy: str | None = None
    error: str | None = None
    depths: Mapping[str, Depth] | None = None
    strange: Sequence[Strange] = ()


async def look(parts: Parts, c: Connection) -> RedisState:
    """Ask it, one thing after another; what matters most first."""
    if not parts.config.redis.enabled:
        return RedisState(OFF)
    try:
        strange = await Inspection(parts.client, parts.keys).wrong_types(parts.queues.names)
        depths = None if strange else await parts.queues.depths()
        memory = await _memory(parts, c)
        strange = [] if memory == FOREIGN else strange
    except BrokerUnavailable as error:
        return RedisState(AWAY, error=clean_text(str(error)))
    told = await info(parts)
    server, version = _version(told)
    policy = told.get("maxmemory_policy")
    return RedisState(memory, server, version, policy, None, depths, strange)


async def _memory(parts: Parts, c: Connection) -> str:
    seen = await parts.epoch.read()
    identity, generation = await engine.identity(c)
    if seen.identity and seen.identity != identity:
        return FOREIGN
    return GOOD if seen.is_good(identity, generation) else FORGETFUL


async def info(parts: Parts) -> Mapping[str, Any]:
    """INFO may be forbidden or renamed on a managed server: that is no failure."""
    try:
        answer = await parts.client.command("INFO")
    except Exception:  # the driver's errors have their one home in the broker
        return {}
    return answer if isinstance(answer, Mapping) else {}


def may_evict(policy: str | None) -> bool:
    """Whether this eviction policy drops keys; an unknown one is given the benefit of the doubt."""
    return policy not in (None, SAFE_POLICY)


def _version(info: Mapping[str, Any]) -> tuple[str, str | None]:
    """Valkey says which Redis it resembles, too: its own version counts."""
    if own := info.get("valkey_version"):
        return "valkey", str(own)
    found = info.get("redis_version")
    return "redis", str(found) if found else None
