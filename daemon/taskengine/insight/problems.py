"""What the findings mean: which of them are wrong, and what to do about each.

A paused queue is somebody's decision and no problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from taskengine.insight import redis_state
from taskengine.insight.findings import Findings

_SCHEDULER_SECONDS = 150.0  # it ticks every minute


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong: a stable code, and words that say what to do."""

    code: str
    text: str


def problems(found: Findings) -> list[Problem]:
    """All that is wrong, what stops most first."""
    return [
        *_of_daemons(found),
        *_of_redis(found),
        *_of_queues(found),
        *_of_jobs(found),
        *_of_schedules(found),
        *_of_webhooks(found),
    ]


def notes(found: Findings) -> list[str]:
    """What is worth knowing and nobody's fault."""
    told = [
        f"queue {each.counts.queue!r} is paused by {each.pause.paused_by}"
        f" since {each.pause.paused_at:%Y-%m-%d %H:%MZ}"
        + (f": {each.pause.pause_reason}" if each.pause.pause_reason else "")
        for each in found.queues
        if each.pause is not None
    ]
    told += [f"{each.name} is draining" for each in found.living if each.draining]
    told += [f"{each.name} claims straight from Postgres" for each in found.living if each.direct]
    if found.redis.version and found.redis.policy is None:
        told.append("the eviction policy of Redis is unknown (INFO is restricted)")
    return told


def _of_daemons(found: Findings) -> Iterator[Problem]:
    if not found.living:
        yield Problem("daemon.none", "no daemon runs: start one with `taskengine run`")
    for each in found.daemons:
        if each.silence > found.silence:
            yield Problem(
                "daemon.silent",
                f"{each.name} has not beaten for {each.silence:.0f} s: it hangs or is gone; "
                "another daemon declares it dead and takes its work over",
            )


def _of_redis(found: Findings) -> Iterator[Problem]:
    state = found.redis
    if state.memory == redis_state.OFF:
        yield Problem(
            "redis.off",
            "Redis is switched off and direct mode is not built yet: nothing is claimed",
        )
    if state.memory == redis_state.AWAY:
        yield Problem("redis.away", f"Redis is away, what is due waits for it: {state.error}")
    if state.memory == redis_state.FOREIGN:
        yield Problem(
            "redis.foreign",
            "Redis holds the deliveries of another database: give this engine a [redis] prefix "
            "of its own",
        )
    if state.memory == redis_state.FORGETFUL and found.living:
        yield Problem(
            "redis.forgetful", "Redis has lost or changed its memory and is not rebuilt yet"
        )
    if redis_state.may_evict(state.policy):
        yield Problem(
            "redis.evicts",
            f"Redis may drop keys (maxmemory-policy is {state.policy}): set {redis_state.SAFE_POLICY}",
        )


def _of_queues(found: Findings) -> Iterator[Problem]:
    for each in found.queues:
        name, counts = each.counts.queue, each.counts
        if not each.listed:
            yield Problem(
                "queue.unlisted",
                f"{counts.pending} executions wait in queue {name!r}, which is not in [engine] queues: "
                "list it again",
            )
        elif not each.polled and found.living:
            yield Problem(
                "queue.unpolled",
                f"{counts.waiting} executions wait in queue {name!r}, pushed but not polled: "
                "add it to [workers] queues of a daemon",
            )


def _of_jobs(found: Findings) -> Iterator[Problem]:
    if found.living:
        for each in found.unknown_jobs:
            yield Problem(
                "job.unknown",
                f"{each.waiting} executions of {each.name!r} wait, but no running daemon knows "
                "that job: deploy it, or add its module to [jobs] modules",
            )
    for definition in found.definitions:
        if definition.error is not None:
            yield Problem("job.broken", f"job {definition.name!r} is skipped: {definition.error}")


def _of_schedules(found: Findings) -> Iterator[Problem]:
    wanted = any(d.settings.schedule and d.settings.is_enabled for d in found.definitions)
    patience = timedelta(seconds=_SCHEDULER_SECONDS)
    settled = [each for each in found.living if found.at - each.started_at > patience]
    ticked = found.ticked
    if not wanted or not settled or (ticked is not None and ticked <= _SCHEDULER_SECONDS):
        return
    since = "has ticked" if ticked is None else f"has ticked for {ticked:.0f} s"
    yield Problem("scheduler.silent", f"schedules do not fire: no daemon's scheduler {since}")


def _of_webhooks(found: Findings) -> Iterator[Problem]:
    for each in found.webhooks:
        if each.stranded:
            yield Problem(
                "webhook.stranded",
                f"{each.stranded} events of {each.source!r} are stranded: "
                "`taskengine webhooks reprocess --dry-run` shows them",
            )
