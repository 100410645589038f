"""All checks, one after another; each stands alone.

Guarantees: a check that cannot look is a finding and stops none of the others; what is merely on its
way is not found, because only what two looks have seen is told; changes nothing. Raises
`StoreUnavailable` where Postgres is away. Works with every daemon down and with Redis away.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from taskengine.errors import StoreUnavailable
from taskengine.insight import divergence, redis_state, status
from taskengine.insight.doctor import daemons, delivery, failures, jobs, postgres, surroundings
from taskengine.insight.doctor.catalogue import SEVERITIES
from taskengine.insight.doctor.finding import Finding, confirmed, finding, worst
from taskengine.insight.findings import Findings
from taskengine.insight.problems import notes
from taskengine.lifecycle.parts import Parts
from taskengine.store import engine
from taskengine.telemetry.redact import clean_text

Check = Callable[[Parts], Awaitable[Sequence[Finding]]]

_OF_POSTGRES: Sequence[Check] = (
    postgres.server,
    postgres.pooler,
    surroundings.postgres_clock,
)
_OF_ROWS: Sequence[Check] = (
    postgres.connections,
    postgres.bloat,
    daemons.left_running,
    daemons.past_deadline,
    daemons.leases,
    jobs.differences,
    jobs.unknown_schedules,
    jobs.schedules,
    failures.quarantined,
    failures.notices,
    failures.unreported,
)
_OF_REDIS: Sequence[Check] = (surroundings.redis, surroundings.redis_clock)
_OF_BOTH: Sequence[Check] = (delivery.divergences, delivery.unheld_keys)


async def examine(parts: Parts) -> list[Finding]:
    """What is wrong, the worst first; within one severity, what stops most first."""
    first = await _look(parts)
    if worst(first) == 0:
        return first
    await parts.clock.sleep(divergence.WAIT)
    found = confirmed(first, await _look(parts))
    return sorted(found, key=lambda each: -SEVERITIES.index(each.severity))


async def _look(parts: Parts) -> list[Finding]:
    """One look. Without its tables, only what stands around them is looked at."""
    found = await _each(parts, [postgres.schema])
    if found:
        return found + await _each(parts, _OF_POSTGRES)
    known = await status.read(parts)
    found = _of_status(known)
    checks = [*_OF_ROWS, *_OF_POSTGRES]
    redis = known.findings.redis
    if redis.memory in (redis_state.GOOD, redis_state.FORGETFUL):
        checks += _OF_REDIS
    if redis.memory == redis_state.GOOD and not redis.strange:
        checks += _OF_BOTH
    return found + await _each(parts, checks)


async def _each(parts: Parts, checks: Sequence[Check]) -> list[Finding]:
    found: list[Finding] = []
    for check in checks:
        name = f"{check.__module__.rsplit('.', 1)[-1]}.{check.__name__}"
        try:
            found += await check(parts)
        except Exception as error:  # one check that fails hides nothing that the others find
            if isinstance(error, StoreUnavailable):
                await _answers(parts)
            found.append(_blind(name, error))
    return found


async def _answers(parts: Parts) -> None:
    """Raises where Postgres is away; a statement that it refuses us ends the same way as that."""
    async with parts.store.connection() as c:
        await engine.now(c)


def _blind(name: str, error: Exception) -> Finding:
    text = clean_text(f"{type(error).__name__}: {error}")
    return finding("doctor.blind", f"could not look at {name}: {text}", name)


def _of_status(known: status.Status) -> list[Finding]:
    """What `status` knows, in its own words."""
    told = [*known.problems, *notes(known.findings)]
    return [
        *[finding(each.code, each.text, each.about) for each in told],
        *_of_no_daemon(known.findings),
    ]


def _of_no_daemon(found: Findings) -> Sequence[Finding]:
    """`status` leaves out what any daemon does as it starts, and what somebody decided."""
    memory = found.redis.memory
    if memory == redis_state.OFF:
        text = "Redis is switched off: workers claim straight from Postgres"
        return [finding("redis.off", text)]
    if memory == redis_state.FORGETFUL and not found.living:
        text = "Redis has lost or changed its memory: the first daemon to start rebuilds it"
        return [finding("redis.forgetful", text)]
    return []
