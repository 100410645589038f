"""Planted: a Redis that forgot, is away, full, another's, or holds something else under our keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskengine.cli.doctor_fixes import fix
from taskengine.insight import redis_state
from taskengine.insight.doctor.finding import finding
from taskengine.services.divergence import Divergence
from tests.insight.doctor_ward import Ward
from tests.support.make import Told
from tests.support.until import until


@pytest.mark.parametrize("kind", ["queue", "processing", "delayed", "epoch", "scheduler_lock"])
async def test_a_key_of_a_wrong_type(ward: Ward, kind: str) -> None:
    sent = await ward.dispatch()
    name = getattr(ward.parts.keys, kind)
    key = name("default") if callable(name) else name
    await ward.redis("DEL", key)
    await ward.redis("RPUSH", key, "a", "list")
    codes = await ward.codes()
    assert "redis.wrong_type" in codes
    assert "redis.away" not in codes
    for found in await ward.found():
        if found.code == "redis.wrong_type":
            assert f"{key!r} holds a list" in found.text
    await _fix_all(ward)
    assert await ward.found() == []
    assert await ward.at(sent.execution_id) == "queue"


async def _fix_all(ward: Ward) -> None:
    done = await fix(ward.parts, await ward.found(), "cli:me")
    assert [each.error for each in done] == [None] * len(done)


async def test_redis_that_forgot_with_a_daemon_and_without(ward: Ward) -> None:
    sent = await ward.dispatch()
    await ward.redis("DEL", ward.parts.keys.epoch, ward.parts.keys.queue("default"))
    await ward.only("redis.forgetful")
    await ward.sql("update task_workers set stopped_at = now()")
    assert await ward.codes() == ["daemon.none", "redis.forgetful"]
    await _fix_all(ward)
    assert await ward.codes() == ["daemon.none"]
    assert await ward.at(sent.execution_id) == "queue"


async def test_redis_of_another_database_is_left_alone(ward: Ward) -> None:
    await ward.old()
    await ward.redis("HSET", ward.parts.keys.epoch, "identity", "another")
    await ward.redis("RPUSH", ward.parts.keys.queue("high"), "theirs")
    found = await ward.found()
    assert [each.code for each in found] == ["redis.foreign"]
    strange = finding("redis.wrong_type", "made up")
    (done,) = await fix(ward.parts, [*found, strange], "cli:me")
    assert "another database" in (done.error or "")
    assert await ward.redis("LLEN", ward.parts.keys.queue("high")) == 1


async def test_redis_away_is_one_finding(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    await ward.old()
    with monkeypatch.context() as away:
        away.setattr(ward.parts.client, "_open_until", float("inf"))
        await ward.only("redis.away")


async def test_redis_switched_off_is_a_note(ward: Ward) -> None:
    off = ward.parts.config.redis.model_copy(update={"enabled": False})
    config = ward.parts.config.model_copy(update={"redis": off})
    ward.parts = replace(ward.parts, config=config)
    found = await ward.only("redis.off")
    assert found.severity == "note"


async def test_an_eviction_policy_that_drops_keys(ward: Ward) -> None:
    await ward.redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        await ward.only("redis.evicts")
    finally:
        await ward.redis("CONFIG", "SET", "maxmemory-policy", redis_state.SAFE_POLICY)
    assert await ward.found() == []


async def test_redis_that_is_full(ward: Ward) -> None:
    used = await ward.redis("INFO", "memory")
    await ward.redis("CONFIG", "SET", "maxmemory", int(used["used_memory"]) + 50_000)
    try:
        assert "redis.memory" in await ward.codes()
    finally:
        await ward.redis("CONFIG", "SET", "maxmemory", 0)
        await until(lambda: ward.parts.client.away_since is None)


async def test_a_key_of_a_wrong_type_heals_by_itself(ward: Ward, told: Told) -> None:
    """No doctor: whoever meets it has the divergence loop nudged, which drops it."""
    sent = await ward.dispatch()
    key = ward.parts.keys.queue("default")
    await ward.redis("DEL", key)
    await ward.redis("SET", key, "a string")
    loop = Divergence(ward.parts, ward.identity, ward.token)
    assert (await ward.dispatch(key="meets it")).delivered is False
    assert loop._nudged.is_set()
    await loop.tick()
    await loop.tick()
    assert told.of("broker.wrong_type") == [{"key": key, "found": "string"}]
    assert await ward.at(sent.execution_id) == "queue"
    assert (await ward.dispatch(key="after")).delivered is True
