"""How a `Status` is shown: a line, the queues, then what is wrong, in words."""

from __future__ import annotations

from taskengine.cli import out, queue_views
from taskengine.cli.words import clean, plural, span
from taskengine.insight import redis_state
from taskengine.insight.findings import Daemon, Findings
from taskengine.insight.redis_state import RedisState
from taskengine.insight.status import DEGRADED, DOWN, HEALTHY, Status

_COLOURS = {HEALTHY: 32, DEGRADED: 33, DOWN: 31}
_MEMORY = {
    redis_state.OFF: "redis off, direct mode",
    redis_state.AWAY: "redis away",
}


def print_status(status: Status, *, as_json: bool) -> None:
    """One object, or the page."""
    found = status.findings
    if as_json:
        out.line(shape(status))
        return
    out.put(" · ".join([out.coloured(status.word, _COLOURS[status.word]), *_headline(found)]))
    out.table(queue_views.COLUMNS, found.queues)
    for each in found.webhooks:
        oldest = span(each.oldest)
        out.put(f"webhooks of {clean(each.source)}: {each.unprocessed} unprocessed, {oldest} old")
    for problem in status.problems:
        out.put(f"{out.coloured('!', 31)} {clean(problem.text)}")
    for told in status.notes:
        out.put(f"· {clean(told)}")


def _headline(found: Findings) -> list[str]:
    ticked = found.ticked
    return [
        plural(len(found.living), "daemon"),
        f"postgres {clean(found.postgres)}",
        _redis(found.redis),
        "scheduler has not ticked" if ticked is None else f"scheduler ticked {span(ticked)} ago",
    ]


def _redis(state: RedisState) -> str:
    return _MEMORY.get(state.memory) or clean(f"{state.server} {state.version or '?'}")


def shape(status: Status) -> dict[str, object]:
    """The JSON object of a status."""
    found = status.findings
    return {
        "status": status.word,
        "at": found.at,
        "postgres": {"version": found.postgres},
        "redis": {
            "memory": found.redis.memory,
            "server": found.redis.server,
            "version": found.redis.version,
            "eviction_policy": found.redis.policy,
        },
        "scheduler_seconds_ago": found.ticked,
        "daemons": [_daemon(each) for each in found.daemons],
        "queues": [queue_views.shape(each) for each in found.queues],
        "webhooks": [each._asdict() for each in found.webhooks],
        "problems": [{"code": each.code, "text": each.text} for each in status.problems],
        "notes": list(status.notes),
    }


def _daemon(each: Daemon) -> dict[str, object]:
    return {
        "name": each.name,
        "version": each.version,
        "queues": list(each.queues),
        "slots": each.slots,
        "draining": each.draining,
        "direct": each.direct,
        "started_at": each.started_at,
        "silent_seconds": each.silence,
        "loops": dict(each.loops),
    }
