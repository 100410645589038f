"""What is wrong and what is not: each problem by itself, beside a system that is well."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from taskengine.broker.inspection import Strange
from taskengine.insight import status
from taskengine.insight.findings import Daemon, Findings, QueueState
from taskengine.insight.redis_state import AWAY, FOREIGN, FORGETFUL, GOOD, OFF, RedisState
from taskengine.model.definition import Definition, settings_from
from taskengine.store.queues import Pause
from taskengine.store.reports import Neglected, QueueCounts, WebhookCounts

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)

DAEMON = Daemon(
    "host/1", "0.1.0", ["high"], 200, False, LONG_AGO, 1.0, {"scheduler": {"age": 12.0}}
)
QUEUE = QueueState(QueueCounts("high", 3, 0, 0, 0, 0.5), listed=True, polled=True, pause=None)
NIGHTLY = Definition("nightly", settings_from("nightly", {"schedule": "0 2 * * *"}), 1, NOW, None)
WELL = Findings(
    at=NOW,
    postgres="18.6",
    redis=RedisState(GOOD, "valkey", "9.1", "noeviction"),
    daemons=[DAEMON],
    silence=12.0,
    queues=[QUEUE],
    unknown_jobs=[],
    webhooks=[WebhookCounts("everee", 2, 0, 10.0)],
    definitions=[NIGHTLY],
)
DIRECT = replace(DAEMON, loops={**DAEMON.loops, "worker": {"found": {"direct": True}}})
SILENT = replace(DAEMON, name="host/2", silence=40.0)
PAUSED = replace(QUEUE, polled=True, pause=Pause("high", NOW, "cli:me@host", "a bad deploy"))


def test_a_system_that_is_well_is_healthy() -> None:
    found = status.judge(WELL)
    assert (found.word, list(found.problems), list(found.notes)) == ("healthy", [], [])
    assert WELL.ticked == 13.0


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"daemons": [DAEMON, SILENT]}, "daemon.silent", "host/2 has not beaten for 40 s"),
        ({"redis": RedisState(AWAY, error="refused")}, "redis.away", "waits for it: refused"),
        (
            {"redis": RedisState(AWAY, error="refused"), "daemons": [DIRECT]},
            "redis.away",
            "is claimed straight from Postgres: refused",
        ),
        ({"redis": RedisState(FOREIGN)}, "redis.foreign", "another database"),
        ({"redis": RedisState(FORGETFUL)}, "redis.forgetful", "not rebuilt yet"),
        (
            {"redis": RedisState(GOOD, "redis", "7.0", "allkeys-lru")},
            "redis.evicts",
            "allkeys-lru): set noeviction",
        ),
        (
            {"redis": RedisState(GOOD, strange=[Strange("taskengine:queue:high", "high", "list")])},
            "redis.wrong_type",
            "'taskengine:queue:high' holds a list",
        ),
        (
            {"queues": [replace(QUEUE, listed=False)]},
            "queue.unlisted",
            "3 executions wait in queue 'high', which is not in [engine] queues",
        ),
        ({"queues": [replace(QUEUE, polled=False)]}, "queue.unpolled", "pushed but not polled"),
        ({"unknown_jobs": [Neglected("old", 4, 9.0)]}, "job.unknown", "4 executions of 'old'"),
        ({"definitions": [replace(NIGHTLY, error="no such day")]}, "job.broken", "no such day"),
        (
            {"daemons": [replace(DAEMON, loops={"scheduler": {"age": 300.0}})]},
            "scheduler.silent",
            "has ticked for 301 s",
        ),
        ({"daemons": [replace(DAEMON, loops={})]}, "scheduler.silent", "scheduler has ticked"),
        ({"webhooks": [WebhookCounts("everee", 2, 1, 900.0)]}, "webhook.stranded", "1 events"),
    ],
)
def test_what_stands_in_the_way_degrades_and_is_said_in_words(
    changes: dict[str, object], code: str, words: str
) -> None:
    found = status.judge(replace(WELL, **changes))  # type: ignore[arg-type]
    assert found.word == "degraded"
    (problem,) = found.problems
    assert problem.code == code
    assert words in problem.text


@pytest.mark.parametrize(
    "changes",
    [
        {"daemons": [replace(DAEMON, loops={}, started_at=NOW)]},  # it has had no minute yet
        {"daemons": [replace(DAEMON, loops={})], "definitions": []},
        {"daemons": [DAEMON, replace(DAEMON, loops={"scheduler": "of another version"})]},
    ],
)
def test_a_scheduler_that_has_nothing_to_tick_for_yet_is_no_problem(
    changes: dict[str, object],
) -> None:
    assert status.judge(replace(WELL, **changes)).word == "healthy"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        (
            {"queues": [PAUSED]},
            "queue 'high' is paused by cli:me@host since 2026-11-02 12:00Z: a bad deploy",
        ),
        ({"redis": RedisState(GOOD, "redis", "7.0", None)}, "eviction policy of Redis is unknown"),
        ({"daemons": [replace(DAEMON, draining=True)]}, "host/1 is draining"),
        ({"daemons": [DIRECT]}, "host/1 claims straight from Postgres"),
    ],
)
def test_what_somebody_decided_is_told_and_no_problem(
    changes: dict[str, object], note: str
) -> None:
    found = status.judge(replace(WELL, **changes))  # type: ignore[arg-type]
    assert found.word == "healthy"
    assert note in found.notes[0]


def test_redis_switched_off_is_somebodys_decision_that_needs_no_words() -> None:
    found = status.judge(replace(WELL, redis=RedisState(OFF), daemons=[DIRECT]))
    assert (found.word, list(found.problems), list(found.notes)) == ("healthy", [], [])


@pytest.mark.parametrize("daemons", [[], [SILENT]])
def test_without_a_daemon_that_beats_all_is_down(daemons: list[Daemon]) -> None:
    """Then nobody polls and nobody knows any job: that is one problem, not one for each of them."""
    found = status.judge(
        replace(
            WELL,
            daemons=daemons,
            queues=[replace(QUEUE, polled=False)],
            unknown_jobs=[Neglected("old", 4, 9.0)],
        )
    )
    assert found.word == "down"
    assert found.problems[0].code == "daemon.none"
    assert {each.code for each in found.problems} <= {"daemon.none", "daemon.silent"}
