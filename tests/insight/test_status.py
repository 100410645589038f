"""What is read of real stores, whatever state they are in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import SecretStr

from taskengine.config import Config
from taskengine.errors import StoreUnavailable
from taskengine.insight import redis_state, status
from taskengine.lifecycle.parts import Parts
from taskengine.store import queues, workers
from taskengine.store.pool import Store
from tests.support.make import FAILED, Hands, a_job


async def test_both_stores_are_read_at_once(hands: Hands) -> None:
    await hands.know(a_job("work", queue="high", max_attempts=1))
    await hands.dispatch()
    await hands.settle(await hands.running(), FAILED)
    claim = await hands.running()
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "low", "me", "why")
        loops = '{"scheduler": {"age": 5.0, "seconds": 0.1, "found": {}}}'
        await workers.beat(c, hands.worker_id, [], loops, draining=False)
    found = (await status.read(hands.parts)).findings
    assert found.redis.memory == redis_state.GOOD
    assert found.redis.server == "valkey"
    assert found.redis.policy == "noeviction"
    assert int(found.postgres.split(".")[0]) >= 14
    (daemon,) = found.living
    assert (daemon.name, daemon.slots) == ("hands", 20)
    assert 5.0 <= (found.ticked or 0.0) < 8.0
    high, low = found.queues[1], found.queues[3]
    assert (high.counts.waiting, high.counts.running, high.counts.failed) == (1, 1, 1)
    assert low.pause is not None
    assert claim.queue == "high"


async def test_nobody_knows_and_nobody_polls(hands: Hands) -> None:
    """The daemon that is here knows another job, and polls another queue."""
    await hands.know(a_job("work", queue="high"))
    await hands.dispatch()
    await hands.sql("update task_workers set jobs = '{other}', queues = '{low}'")
    codes = {each.code for each in (await status.read(hands.parts)).problems}
    assert codes == {"job.unknown", "queue.unpolled"}
    await hands.sql("update task_workers set jobs = '{work}', queues = '{high}'")
    found = await status.read(hands.parts)
    assert (found.word, list(found.problems)) == ("healthy", [])


async def test_redis_that_forgot_or_is_anothers_is_seen(hands: Hands) -> None:
    parts = hands.parts
    await parts.client.command("DEL", parts.keys.epoch)
    assert (await status.read(parts)).findings.redis.memory == redis_state.FORGETFUL
    await parts.client.command("HSET", parts.keys.epoch, "identity", "another")
    assert (await status.read(parts)).findings.redis.memory == redis_state.FOREIGN


async def test_redis_away_is_a_finding_and_no_failure(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hands.parts.client, "_open_until", float("inf"))
    found = await status.read(hands.parts)
    assert found.findings.redis.memory == redis_state.AWAY
    assert "redis.away" in {each.code for each in found.problems}


async def test_a_redis_that_says_nothing_of_itself_is_relied_on_all_the_same(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(*words: object) -> object:
        raise RuntimeError("NOPERM or an unknown command")

    monkeypatch.setattr(type(hands.parts.client), "command", lambda _, *words: refuses(*words))
    found = (await status.read(hands.parts)).findings.redis
    assert (found.memory, found.version, found.policy) == (redis_state.GOOD, None, None)


async def test_a_redis_that_is_switched_off_is_not_asked(config: Config, parts: Parts) -> None:
    off = config.model_copy(update={"redis": config.redis.model_copy(update={"enabled": False})})
    found = (await status.read(replace(parts, config=off))).findings
    assert found.redis.memory == redis_state.OFF


async def test_postgres_away_is_raised(config: Config, parts: Parts) -> None:
    away = config.postgres.model_copy(update={"dsn": SecretStr("postgresql://127.0.0.1:1/x")})
    store = await Store.open(away)
    with pytest.raises(StoreUnavailable):
        await status.read(replace(parts, store=store))
    await store.close()
