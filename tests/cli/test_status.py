"""`taskengine status`: the page of people, the object of machines, the exit status of scripts."""

from __future__ import annotations

import pytest

from taskengine.cli.words import NONE
from taskengine.config import Config
from taskengine.lifecycle.parts import Parts
from taskengine.store import workers
from tests.cli.conftest import Cli, Shell, environment
from tests.support.make import Hands, a_job

_KEYS = [
    *("status", "at", "postgres", "redis", "scheduler_seconds_ago", "daemons", "queues"),
    *("webhooks", "problems", "notes"),
]
_DAEMON = [
    *("name", "version", "queues", "slots", "draining", "direct", "started_at"),
    *("silent_seconds", "loops"),
]


@pytest.fixture
async def daemon(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> Hands:
    """A daemon that has just beaten. The lease is that of the command's own configuration."""
    await hands.know(a_job("work", queue="high"))
    async with hands.parts.store.connection() as c:
        await c.execute("update task_workers set jobs = '{work}'")
        loops = '{"scheduler": {"age": 11.5}}'
        await workers.beat(c, hands.worker_id, [], loops, draining=False)
    return hands


async def test_a_healthy_system_in_the_words_of_the_page(daemon: Hands, cli: Cli) -> None:
    await daemon.dispatch()
    result = await cli("status")
    assert (result.status, result.err) == (0, "")
    head, titles, *rows = result.out.splitlines()
    word, count, postgres, redis, scheduler = head.split(" · ")
    assert (word, count) == ("healthy", "1 daemon")
    assert postgres.startswith("postgres 1")
    assert redis.startswith("valkey ")
    assert scheduler.startswith("scheduler ticked 1")
    assert scheduler.endswith(" s ago")
    assert titles.split() == [
        "queue",
        "waiting",
        "oldest",
        "delayed",
        "running",
        "failed",
        "24",
        "h",
    ]
    assert [row.split()[0] for row in rows] == ["payroll", "high", "default", "low"]
    assert rows[0].split() == ["payroll", "0", NONE, "0", "0", "0"]
    assert rows[1].split()[:2] == ["high", "1"]


async def test_the_object_has_a_stable_schema(daemon: Hands, cli: Cli) -> None:
    result = await cli("status", "--json")
    found = result.object
    assert list(found) == _KEYS
    assert list(found["redis"]) == ["memory", "server", "version", "eviction_policy"]
    assert [list(each) for each in found["daemons"]] == [_DAEMON]
    assert (result.status, found["status"], found["problems"]) == (0, "healthy", [])


async def test_a_degraded_system_says_what_to_do(daemon: Hands, cli: Cli) -> None:
    await daemon.dispatch()
    await daemon.sql("update task_workers set queues = '{low}'")
    await daemon.sql("update task_job_definitions set error = 'bad \x1b[2J'")
    result = await cli("status")
    assert result.status == 1
    assert result.out.startswith("degraded · ")
    assert "! 1 executions wait in queue 'high', pushed but not polled" in result.out
    assert "! job 'work' is skipped: bad \\x1b[2J" in result.out
    codes = {each["code"] for each in (await cli("status", "--json")).object["problems"]}
    assert codes == {"queue.unpolled", "job.broken"}


async def test_a_pause_is_a_note(daemon: Hands, cli: Cli) -> None:
    await cli("queues", "pause", "low", "--reason", "a bad deploy")
    result = await cli("status")
    assert result.status == 0
    assert "low (paused)" in result.out
    assert "a bad deploy" in result.out.splitlines()[-1]


async def test_with_every_daemon_down_it_says_so(
    parts: Parts, config: Config, shell: Shell
) -> None:
    """As a real process."""
    result = shell("status", env=environment(config))
    assert result.status == 1
    assert result.out.startswith("down · 0 daemons · ")
    assert "! no daemon runs: start one with `taskengine run`" in result.out


async def test_redis_away_degrades(
    daemon: Hands, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKENGINE_REDIS__URL", "redis://:hunter2@127.0.0.1:1/0")
    result = await cli("status")
    assert result.status == 1
    assert "redis away" in result.out
    assert "hunter2" not in result.out + result.err


async def test_redis_off_is_direct_mode_and_healthy(
    daemon: Hands, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKENGINE_REDIS__ENABLED", "false")
    result = await cli("status")
    assert result.out.startswith("healthy · 1 daemon · postgres ")
    assert " · redis off, direct mode · " in result.out
    assert result.status == 0
