"""The table "When something is away", on servers that are really stopped, replaced or read-only.

(Webhooks with Postgres away, and the senders, are with the webhooks and the notices. A job's class
that is away: `tests/services/test_worker.py`. Direct mode: `tests/services/test_direct.py`.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from taskengine.broker.client import Client
from taskengine.config import Config
from taskengine.embedded import Servers
from taskengine.embedded.server import Server
from taskengine.errors import BrokerUnavailable, StoreUnavailable
from taskengine.lifecycle.parts import Parts, close_parts, open_parts
from taskengine.services.deliveries import Deliveries
from taskengine.services.divergence import Divergence
from taskengine.services.orphans import DeadWorkers
from tests.support.fake_clock import FakeClock
from tests.support.make import FAILED, SUCCEEDED, Hands, Spare, Told, a_job, settled_by
from tests.support.until import until


@pytest.fixture
def servers(spare: Spare) -> Servers:
    return spare.servers


@pytest.fixture
def config(config: Config) -> Config:
    """A breaker that closes soon."""
    redis = config.redis.model_copy(update={"breaker": 0.02, "timeout": 2.0})
    return config.model_copy(update={"redis": redis})


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> AsyncIterator[None]:
    await hands.know(a_job("work", retry_backoff=0))
    yield
    await redis_is_back(hands)


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """While this lasts, nobody answers there."""
    server.stop()
    try:
        yield
    finally:
        server.start()


async def redis_is_back(hands: Hands) -> None:
    async def answers() -> bool:
        try:
            return bool(await hands.redis("PING"))
        except BrokerUnavailable:
            return False

    await until(answers)


async def postgres_is_back(hands: Hands) -> None:
    async def answers() -> bool:
        try:
            return bool(await hands.sql("select 1"))
        except StoreUnavailable:
            return False

    await until(answers)


# ---- Redis ---------------------------------------------------------------------------------------


async def test_redis_away_a_dispatch_commits_undelivered_and_is_counted(
    hands: Hands, spare: Spare, told: Told
) -> None:
    with stopped(spare.embedded.valkey):
        sent = await hands.dispatch()
    assert (sent.created, sent.delivered, sent.state) == (True, False, "pending")
    assert await hands.state(sent.execution_id) == "pending"
    assert [e["count"] for e in told.of("execution.undelivered")] == [1]
    assert len(told.of("broker.away")) == 1
    await redis_is_back(hands)
    assert len(told.of("broker.back")) == 1


async def test_redis_away_a_breaker_spares_the_time_out(
    parts: Parts, spare: Spare, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked = FakeClock(), 0
    client = Client(parts.config.redis.model_copy(update={"breaker": 1.0}), clock)
    real = client._execute

    async def counted(*words: Any) -> Any:
        nonlocal asked
        asked += 1
        return await real(*words)

    monkeypatch.setattr(client, "_execute", counted)
    with stopped(spare.embedded.valkey):
        for _ in range(5):
            with pytest.raises(BrokerUnavailable):
                await client.command("PING")
        assert asked == 1
        await clock.advance(1.1)
        with pytest.raises(BrokerUnavailable):
            await client.command("PING")
        assert asked == 2
    await clock.advance(1.1)
    assert await client.command("PING")
    assert client.away_since is None
    await client.close()


async def test_redis_away_is_one_that_answers_reads_and_refuses_writes(
    hands: Hands, told: Told
) -> None:
    """After a failover to a replica, or where its memory is full: the same answer to a write."""
    await hands.redis("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        sent = await hands.dispatch()
        away_since = hands.parts.client.away_since
        for _ in range(3):
            await hands.parts.clock.sleep(0.03)  # the breaker's time
            await hands.parts.queues.depths()
        assert not sent.delivered
        assert hands.parts.client.away_since == away_since is not None
        assert len(told.of("broker.away")) == 1
        assert told.of("broker.back") == []
        with pytest.raises(BrokerUnavailable):
            await hands.parts.client.probe()
    finally:
        await hands.parts.client._redis.config_set("min-replicas-to-write", 0)
    await redis_is_back(hands)
    assert hands.parts.client.away_since is None
    assert await hands.redis("EXISTS", f"{hands.parts.keys.prefix}:probe") == 0


async def test_redis_away_the_delivery_sweep_puts_nothing_off(hands: Hands, spare: Spare) -> None:
    made = await hands.insert()
    await hands.change(made.id, check_at="sql:now()")
    before = await hands.row(made.id)
    with stopped(spare.embedded.valkey), pytest.raises(BrokerUnavailable):
        await Deliveries(hands.parts, hands.identity, hands.token).tick()
    assert await hands.row(made.id) == before


async def test_redis_away_when_it_is_back_empty_or_not_everything_is_delivered(
    hands: Hands, spare: Spare
) -> None:
    loop = Divergence(hands.parts, hands.identity, hands.token)
    before = await hands.dispatch()
    with stopped(spare.embedded.valkey):
        during = await hands.dispatch()
    await redis_is_back(hands)
    assert loop._nudged.is_set()  # at once
    await loop.tick()
    ids = sorted([before.execution_id, during.execution_id])
    assert sorted(r.id for r in await hands.reserve()) == ids


async def test_redis_away_for_a_moment_the_delivery_sweep_delivers(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same server, the same epoch: nothing to be rebuilt."""

    async def away(*_: Any) -> Any:
        raise BrokerUnavailable("a moment")

    with monkeypatch.context() as broken:
        broken.setattr(hands.parts.queues, "push", away)
        sent = await hands.dispatch()
    await hands.change(sent.execution_id, check_at="sql:now()")
    await Deliveries(hands.parts, hands.identity, hands.token).tick()
    assert await hands.at(sent.execution_id) == "queue"


async def test_redis_away_running_jobs_end_and_are_settled(hands: Hands, spare: Spare) -> None:
    """From the claim on, nothing needs Redis."""
    go_on = asyncio.Event()

    async def body(ctx: Any) -> None:
        await go_on.wait()

    await hands.know(a_job("long", body))
    claim, failing = await hands.running("long"), await hands.running()
    async with hands.settling():
        flight = hands.fly(claim)
        with stopped(spare.embedded.valkey):
            go_on.set()
            hands.crew.settler.put(hands.flight(failing), FAILED)
            await until(lambda: flight.ended)
            await hands.crew.settler.flush()
    assert await hands.state(claim.id) == "succeeded"
    assert await hands.state(failing.id) == "pending"  # undelivered: the sweep's
    await redis_is_back(hands)


async def test_redis_switched_off_in_the_config_is_the_same_for_good(hands: Hands) -> None:
    redis = hands.parts.config.redis.model_copy(update={"enabled": False})
    config = hands.parts.config.model_copy(update={"redis": redis})
    parts = hands.parts
    off = await open_parts(config, parts.registry, parts.clock, parts.rng, "off")
    try:
        sent = await Hands(off, "off").dispatch(key="k")
        assert (sent.created, sent.delivered) == (True, False)
        assert await hands.at(sent.execution_id) is None
    finally:
        await close_parts(off)


NOT_NOW = [
    "READONLY You can't write against a read only replica.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "LOADING Redis is loading the dataset in memory",
    "MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "NOREPLICAS Not enough good replicas to write.",
    "CLUSTERDOWN The cluster is down",
    "NOPERM this user has no permissions to run the 'evalsha' command",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
]


@pytest.mark.parametrize("answer", NOT_NOW, ids=lambda a: a.split()[0])
async def test_redis_that_answers_not_now_counts_as_away(hands: Hands, answer: str) -> None:
    with pytest.raises(BrokerUnavailable):
        await hands.redis("EVAL", "return redis.error_reply(ARGV[1])", 0, answer)
    assert hands.parts.client.away_since is not None


async def test_redis_readonly_after_a_failover_dispatches_undelivered(hands: Hands) -> None:
    await hands.redis("REPLICAOF", "127.0.0.1", "1")
    try:
        sent = await hands.dispatch()
        assert (sent.created, sent.delivered) == (True, False)
    finally:
        await asyncio.sleep(0.03)  # the breaker
        await hands.redis("REPLICAOF", "NO", "ONE")


async def test_redis_oom_dispatches_undelivered(hands: Hands) -> None:
    await hands.redis("CONFIG", "SET", "maxmemory", 1)
    try:
        sent = await hands.dispatch()
        assert (sent.created, sent.delivered) == (True, False)
    finally:
        await asyncio.sleep(0.03)
        await hands.redis("CONFIG", "SET", "maxmemory", 0)


async def test_redis_oom_a_reserve_goes_on_and_loses_nothing(hands: Hands) -> None:
    """It pops before it adds: Redis may refuse a script's first write, never its second."""
    sent = await hands.dispatch()
    await hands.redis("CONFIG", "SET", "maxmemory", 1)
    try:
        assert [r.id for r in await hands.reserve()] == [sent.execution_id]
        assert await hands.at(sent.execution_id) == "processing"
        (claim,) = await hands.claim(sent.execution_id)
        await hands.ack(claim)
        assert await hands.at(sent.execution_id) is None
    finally:
        await hands.redis("CONFIG", "SET", "maxmemory", 0)


async def test_redis_key_of_a_wrong_type_fails_no_dispatch(hands: Hands) -> None:
    """Somebody has written over a key of ours."""
    await hands.redis("SET", hands.parts.keys.queue("default"), "x")
    sent = await hands.dispatch()
    assert (sent.created, sent.delivered) == (True, False)


# ---- Postgres ------------------------------------------------------------------------------------


async def test_postgres_away_a_dispatch_says_so(hands: Hands, spare: Spare) -> None:
    with stopped(spare.embedded.postgres), pytest.raises(StoreUnavailable):
        await hands.dispatch()
    await postgres_is_back(hands)
    assert (await hands.dispatch()).created


async def test_postgres_away_running_jobs_go_on_and_their_settlements_wait(
    hands: Hands, spare: Spare
) -> None:
    began, go_on, ran = 0, asyncio.Event(), 0

    async def body(ctx: Any) -> str:
        nonlocal began, ran
        began += 1
        await go_on.wait()
        ran += 1
        return "done"

    await hands.know(a_job("long", body))
    for _ in range(5):
        await hands.dispatch("long")
    async with hands.working():
        await until(lambda: began == 5)
        with stopped(spare.embedded.postgres):
            go_on.set()
            await until(lambda: ran == 5)
            assert len(hands.crew.inflight) == 5
        await settled_by(hands, "long")
    rows = await hands.sql("select state, result, attempt from task_executions")
    assert [tuple(r.values()) for r in rows] == [("succeeded", '"done"', 1)] * 5
    assert ran == 5


async def test_postgres_away_nothing_is_claimed_until_it_answers(
    hands: Hands, spare: Spare
) -> None:
    sent = await hands.dispatch()
    reserved = await hands.reserve()
    with stopped(spare.embedded.postgres):
        claiming = asyncio.create_task(hands.crew.acquirer.claim(reserved, hands.worker_id))
        await until(lambda: hands.crew.acquirer._backoff.tries > 1)
        assert not claiming.done()
    claims = await claiming
    assert [c.id for c in claims] == [sent.execution_id]


async def test_postgres_restarted_as_after_a_crash_keeps_what_was_committed(
    hands: Hands, spare: Spare
) -> None:
    claim = await hands.running()
    sent = await hands.dispatch(key="k")
    await hands.sql("checkpoint")
    await asyncio.to_thread(spare.embedded.restart_postgres, immediate=True)
    await postgres_is_back(hands)
    hands.crew.settler.put(hands.flight(claim), SUCCEEDED)
    async with hands.settling():
        pass
    assert await hands.state(claim.id) == "succeeded"
    assert (await hands.dispatch(key="k")).execution_id == sent.execution_id


async def test_postgres_read_only_after_a_failover_drops_its_connections(hands: Hands) -> None:
    """25006: the next call looks for the new primary."""
    (before,) = await hands.sql("select pg_backend_pid() as pid")
    await hands.sql("set default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable, match="ReadOnly"):
        while True:  # until it meets the connection that is read-only
            await hands.sql("delete from task_executions")
    (after,) = await hands.sql("select pg_backend_pid() as pid")
    assert after["pid"] != before["pid"]
    assert (await hands.dispatch()).created


async def test_postgres_away_nobody_is_declared_dead_until_beats_flow_a_whole_lease_again(
    hands: Hands, spare: Spare
) -> None:
    """All were cut off alike: the silence of others proves nothing."""
    other = await Hands(hands.parts, "other").join()
    sent = await hands.dispatch()
    await hands.reserve()
    (claim,) = await other.claim(sent.execution_id)
    beat, lease = hands.watch.beat, hands.watch.lease
    await hands.silence(other.worker_id)  # up to a moment ago
    hands.heartbeat.pulse._loop = asyncio.get_running_loop()
    with stopped(spare.embedded.postgres):
        await hands.heartbeat.pulse.turn(hands.parts.store)
        await asyncio.sleep(0)
    await postgres_is_back(hands)
    service = DeadWorkers(hands.parts, hands.identity, hands.watch)
    await service.tick()
    assert await hands.state(claim.id) == "running"
    turns = int(lease / beat)
    for turn in range(turns + 1):
        hands.watch.observe(turn * beat, [(other.worker_id, 0)])
        await service.tick()
        expected = "running" if turn < turns else "pending"
        assert await hands.state(claim.id) == expected
    other.die()


# ---- the clock jumps -----------------------------------------------------------------------------


async def test_clock_jumps_due_times_go_by_the_databases_clock(hands: Hands) -> None:
    clock = FakeClock()
    clock.jump(10 * 86400)
    jumped = Hands(replace(hands.parts, clock=clock), "jumped")
    sent = await jumped.dispatch(delay=600.0)
    row = await hands.row(sent.execution_id)
    assert (row["run_at"] - row["created_at"]).total_seconds() == 600
    assert await hands.claim(sent.execution_id) == []
