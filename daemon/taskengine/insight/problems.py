"""What the findings mean: which of them are wrong, and what to do about each.

A paused queue is somebody's decision and no problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from taskengine.insight import redis_state
from taskengine.insight.findings import Findings

SCHEDULER_SECONDS = 150.0  # it ticks every minute


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong: a stable code, words that say what to do, and the daemon, queue, job
    or source that it is about."""

    code: str
    text: str
    about: str = ""


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


def notes(found: Findings) -> list[Problem]:
    """What is worth knowing and nobody's fault."""
    return list(_of_decisions(found))


def _of_decisions(found: Findings) -> Iterator[Problem]:
    for each in found.queues:
        if (pause := each.pause) is not None:
            why = f": {pause.pause_reason}" if pause.pause_reason else ""
            since = f"{pause.paused_at:%Y-%m-%d %H:%MZ}"
            yield Problem(
                "queue.paused",
                f"queue {each.counts.queue!r} is paused by {pause.paused_by} since {since}{why}",
                each.counts.queue,
            )
    for daemon in found.living:
        if daemon.draining:
            yield Problem("daemon.draining", f"{daemon.name} is draining")
        if daemon.direct and found.redis.memory != redis_state.OFF:
            yield Problem("daemon.direct", f"{daemon.name} claims straight from Postgres")
    if found.redis.version and found.redis.policy is None:
        yield Problem(
            "redis.policy_unknown", "the eviction policy of Redis is unknown (INFO is restricted)"
        )


def _of_daemons(found: Findings) -> Iterator[Problem]:
    if not found.living:
        yield Problem("daemon.none", "no daemon runs: start one with `taskengine run`")
    for each in found.daemons:
        if each.silence > found.silence:
            yield Problem(
                "daemon.silent",
                f"{each.name} has not beaten for {each.silence:.0f} s: it hangs or is gone; "
                "another daemon declares it dead and takes its work over",
                each.name,
            )


def _of_redis(found: Findings) -> Iterator[Problem]:
    state = found.redis
    if state.memory == redis_state.AWAY:
        direct = found.living and all(each.direct for each in found.living)
        what = "is claimed straight from Postgres" if direct else "waits for it"
        yield Problem("redis.away", f"Redis is away, what is due {what}: {state.error}")
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
    for key in state.strange:
        yield Problem(
            "redis.wrong_type",
            f"key {key.key!r} holds a {key.found}, which is none of ours: daemons drop it and write "
            "its queue anew",
            key.key,
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
                name,
            )
        elif not each.polled and found.living:
            yield Problem(
                "queue.unpolled",
                f"{counts.waiting} executions wait in queue {name!r}, pushed but not polled: "
                "add it to [workers] queues of a daemon",
                name,
            )


def _of_jobs(found: Findings) -> Iterator[Problem]:
    if found.living:
        for each in found.unknown_jobs:
            yield Problem(
                "job.unknown",
                f"{each.waiting} executions of {each.name!r} wait, but no running daemon knows "
                "that job: deploy it, or add its module to [jobs] modules",
                each.name,
            )
    for definition in found.definitions:
        if definition.error is not None:
            name, error = definition.name, definition.error
            yield Problem("job.broken", f"job {name!r} is skipped: {error}", name)


def _of_schedules(found: Findings) -> Iterator[Problem]:
    wanted = any(d.settings.schedule and d.settings.is_enabled for d in found.definitions)
    patience = timedelta(seconds=SCHEDULER_SECONDS)
    settled = [each for each in found.living if found.at - each.started_at > patience]
    ticked = found.ticked
    if not wanted or not settled or (ticked is not None and ticked <= SCHEDULER_SECONDS):
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
                each.source,
            )
