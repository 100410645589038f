"""`taskengine queues`, `stores` and `migrate`: small moves, told and kept."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from taskengine.broker.wake import Wake
from taskengine.config import Config
from taskengine.lifecycle.parts import Parts
from taskengine.store import queues, stores
from tests.cli.conftest import Cli
from tests.support.make import Hands, a_job
from tests.support.until import until

_QUEUE = [
    *("queue", "waiting", "oldest_seconds", "delayed", "running", "failed_24h"),
    *("listed", "polled", "paused_at", "paused_by", "pause_reason"),
]


async def test_queues_tell_what_they_hold(hands: Hands, cli: Cli) -> None:
    await hands.know(a_job("work", queue="low"))
    await hands.dispatch()
    await hands.dispatch(delay=60)
    await hands.sql("update task_executions set queue = 'gone' where run_at > now()")
    found = (await cli("queues", "list", "--json")).objects
    assert all(list(each) == _QUEUE for each in found)
    assert [each["queue"] for each in found] == [*hands.parts.config.engine.queues, "gone"]
    low, gone = found[3:]
    assert (low["waiting"], low["delayed"], low["listed"]) == (1, 0, True)
    assert low["oldest_seconds"] < 60
    assert (gone["waiting"], gone["delayed"], gone["listed"]) == (0, 1, False)
    assert "gone (not listed)" in (await cli("queues", "list")).out


async def test_a_pause_is_kept_with_its_reason(parts: Parts, cli: Cli) -> None:
    result = await cli("queues", "pause", "low", "high", "--reason", "a bad deploy", "--json")
    assert (result.status, [each["answer"] for each in result.objects]) == (0, ["paused"] * 2)
    async with parts.store.connection() as c:
        (high, low) = await queues.paused(c)
    assert (high.name, low.name, low.pause_reason) == ("high", "low", "a bad deploy")
    assert low.paused_by.startswith("cli:")
    assert "low (paused)" in (await cli("queues", "list")).out


async def test_a_resume_wakes_idle_workers(parts: Parts, cli: Cli, config: Config) -> None:
    await cli("queues", "pause", "low", "--reason", "x")
    woken: list[str] = []
    listening = asyncio.create_task(Wake(config.redis, parts.keys.wake).listen(woken.append))
    await until(lambda: woken)
    result = await cli("queues", "resume", "low", "high", "--json")
    assert [each["answer"] for each in result.objects] == ["resumed", "was not paused"]
    await until(lambda: woken == ["", ""])
    listening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listening


async def test_a_resume_without_redis_is_one_all_the_same(
    parts: Parts, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cli("queues", "pause", "low", "--reason", "x")
    monkeypatch.setenv("TASKENGINE_REDIS__URL", "redis://127.0.0.1:1/0")
    result = await cli("queues", "resume", "low", "--json")
    assert (result.status, result.object["answer"]) == (0, "resumed")
    assert "Redis is away" in result.err


async def test_an_unknown_queue_changes_nothing(parts: Parts, cli: Cli) -> None:
    result = await cli("queues", "pause", "low", "hihg", "--reason", "x")
    assert result.status == 3
    assert "did you mean 'high'?" in result.err
    async with parts.store.connection() as c:
        assert await queues.paused(c) == []
    assert (await cli("queues", "resume", "hihg")).status == 3


# ---- stores --------------------------------------------------------------------------------------


async def test_stores_are_added_changed_and_closed(parts: Parts, cli: Cli) -> None:
    add = ("stores", "add", "0123", "--name", "First", "--time-zone", "Europe/Berlin", "--json")
    assert (await cli(*add)).object == {"store": "0123", "answer": "added"}
    assert (await cli(*add)).object == {"store": "0123", "answer": "changed"}
    (listed,) = (await cli("stores", "list", "--json")).objects
    assert list(listed) == [
        *("type_num", "name", "time_zone", "is_active", "has_dsn", "created_at", "closed_at")
    ]
    assert (await cli("stores", "close", "0123")).status == 0
    (listed,) = (await cli("stores", "list", "--json")).objects
    assert listed["is_active"] is False
    unknown = await cli("stores", "close", "0124")
    assert unknown.status == 3
    assert "did you mean '0123'?" in unknown.err


@pytest.mark.parametrize("by_stdin", [True, False])
async def test_a_dsn_is_a_secret(
    parts: Parts, cli: Cli, monkeypatch: pytest.MonkeyPatch, by_stdin: bool
) -> None:
    dsn = "postgresql://me:hunter2@host/store"
    monkeypatch.setenv("STORE_DSN", dsn)
    how = ("--dsn-from-stdin",) if by_stdin else ("--dsn-from-env", "STORE_DSN")
    stdin = f"{dsn}\n".encode() if by_stdin else b""
    added = await cli("stores", "add", "1", "--name", "x", *how, stdin=stdin)
    assert added.status == 0
    async with parts.store.connection() as c:
        assert await stores.dsn(c, "1") == dsn
    listed = await cli("stores", "list", "--json")
    assert listed.object["has_dsn"] is True
    assert "hunter2" not in listed.out + added.out
    again = await cli("stores", "add", "1", "--name", "y", "--dsn-from-stdin", stdin=b"hunter2\n")
    assert again.status == 2
    assert "hunter2" not in again.err


# ---- migrations ----------------------------------------------------------------------------------


async def test_a_schema_is_brought_up_to_date(config: Config, cli: Cli) -> None:
    assert (await cli("migrate", "check")).status == 78
    unmigrated = await cli("executions", "list")
    assert unmigrated.status == 78
    assert "run `taskengine migrate up`" in unmigrated.err
    before = (await cli("migrate", "status", "--json")).objects
    assert all(list(each) == ["version", "name", "state"] for each in before)
    assert {each["state"] for each in before} == {"pending"}
    applied = (await cli("migrate", "up", "--json")).objects
    assert [each["version"] for each in applied] == [each["version"] for each in before]
    assert (await cli("migrate", "up")).out == ""
    assert (await cli("migrate", "check")).status == 0
    after = (await cli("migrate", "status", "--json")).objects
    assert {each["state"] for each in after} == {"applied"}


async def test_a_file_that_changed_after_it_was_applied_is_found(parts: Parts, cli: Cli) -> None:
    async with parts.store.connection() as c:
        await c.execute("update schema_migrations set checksum = 'x' where version = 1")
    result = await cli("migrate", "check")
    assert result.status == 78
    assert "differ from their files" in result.err
    assert (await cli("migrate", "status", "--json")).objects[0]["state"] == "changed"
