"""The workers while Redis is away: into direct mode, through it, and back by themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from taskengine.app.build import build, loops
from taskengine.app.process import measure
from taskengine.config import Config
from taskengine.embedded import Servers
from taskengine.errors import BrokerUnavailable
from taskengine.lifecycle.dispatch import Request
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.systemd import Notifier
from taskengine.services.divergence import Divergence
from taskengine.services.orphans import DeadWorkers
from taskengine.services.promoter import Promoter
from taskengine.services.worker import Worker
from tests.support.make import Hands, Spare, Told, a_job, settled_by
from tests.support.until import until

IDLE = 0.05  # seconds: the poll interval here


@pytest.fixture
def servers(spare: Spare) -> Servers:
    return spare.servers


@pytest.fixture
def config(config: Config) -> Config:
    """What takes seconds takes less here."""
    redis = config.redis.model_copy(update={"breaker": 0.02})
    workers = config.workers.model_copy(update={"poll_interval": IDLE, "direct_after": 0.1})
    return config.model_copy(update={"redis": redis, "workers": workers})


@contextmanager
def _stopped(spare: Spare) -> Iterator[None]:
    spare.embedded.valkey.stop()
    try:
        yield
    finally:
        spare.embedded.valkey.start()


async def _ask(hands: Hands) -> bool:
    """A turn of the promoter: it asks Redis, whatever the workers do."""
    try:
        await Promoter(hands.parts, hands.identity).tick()
    except BrokerUnavailable:
        return False
    return hands.parts.client.away_since is None


@pytest_asyncio.fixture
async def knowing(hands: Hands) -> AsyncIterator[Hands]:
    await hands.know(a_job("work"))
    yield hands
    hands.parts.client.away_since = None
    await until(lambda: _ask(hands))


async def test_while_redis_is_away_what_is_due_runs_and_then_goes_by_way_of_it_again(
    knowing: Hands, spare: Spare, told: Told
) -> None:
    hands = knowing
    await hands.dispatch()
    async with hands.working() as worker:
        await settled_by(hands, "work")
        with _stopped(spare):
            sent = await hands.dispatch()
            later = await hands.dispatch(delay=0.3)
            await settled_by(hands, "work")
            assert worker.report(0.0)["found"] == {"direct": True}
        assert not sent.delivered
        assert not later.delivered
        await until(lambda: _ask(hands))
        await Divergence(hands.parts, hands.identity, hands.token).tick()
        back = await hands.dispatch()
        assert back.delivered
        await settled_by(hands, "work")
        assert worker.report(0.0)["found"] == {"direct": False}
    assert len(told.of("broker.direct")) == 1
    assert len(told.of("broker.direct_left")) == 1


async def test_one_that_refuses_writes_is_away_too(knowing: Hands, told: Told) -> None:
    hands = knowing
    await hands.redis("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        async with hands.working():
            await hands.dispatch()
            await settled_by(hands, "work")
            await _ask(hands)
        assert len(told.of("broker.direct")) == 1
        assert told.of("broker.back") == []
    finally:
        await hands.parts.client._redis.config_set("min-replicas-to-write", 0)


async def test_its_slots_and_threads_bound_it_as_ever(knowing: Hands, spare: Spare) -> None:
    hands = knowing
    now = most = 0

    async def body(ctx: Any) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1

    await hands.know(a_job("slow", body), a_job("plain", lambda ctx: None))
    hands.crew.slots = 4
    hands.crew.threads.resize(2)
    with _stopped(spare):
        await hands.dispatcher.dispatch_many(
            [Request(name) for name in ("slow", "plain") for _ in range(30)]
        )
        async with hands.working():
            await settled_by(hands, "slow")
            await settled_by(hands, "plain")
    assert 1 < most <= 4


async def test_a_crash_after_the_claim_is_healed_as_ever(knowing: Hands, spare: Spare) -> None:
    """Neither recovery nor its delivery needs Redis."""
    hands = knowing
    with _stopped(spare):
        sent = await hands.dispatch()
        limits = [("default", 10)]
        await hands.crew.direct.claim(limits, 10, hands.worker_id, ["work"])
        undertaker = await Hands(hands.parts, "undertaker").join()
        undertaker.crew.acquirer.jobs = ("work",)
        await undertaker.silence(hands.worker_id)
        await DeadWorkers(undertaker.parts, undertaker.identity, undertaker.watch).tick()
        async with undertaker.working():
            await settled_by(undertaker, "work")
        undertaker.die()
    row = await hands.row(sent.execution_id)
    assert (row["state"], row["attempt"], row["orphanings"]) == ("succeeded", 2, 1)


# ---- what a daemon is made of --------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False])
async def test_switched_off_nothing_is_built_that_needs_redis(parts: Parts, enabled: bool) -> None:
    redis = parts.config.redis.model_copy(update={"enabled": enabled})
    off = replace(parts, config=parts.config.model_copy(update={"redis": redis}))
    daemon = build(off, measure(off), Notifier(None))
    needs = {"promoter", "divergence", "waker", "reservations", "deliveries"}
    names = {each.name for each in daemon.services}
    assert names & needs == (needs if enabled else set())
    assert {"worker", "heartbeat", "orphans", "scheduler", "webhooks"} <= names
    told = json.loads(loops(daemon.services, parts.clock))
    assert told["worker"]["found"] == {"direct": not enabled}
    await daemon.databases.close()


async def test_while_nothing_is_left_a_slot_that_gets_free_asks_nobody(
    knowing: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = knowing
    worker = Worker(hands.crew)
    waited = list[str]()

    async def sleep(seconds: float) -> None:
        waited.append(f"slept {seconds}")

    async def wait(*_: Any) -> None:
        waited.append("waited to be woken")

    monkeypatch.setattr(type(hands.parts.clock), "sleep", lambda _, seconds: sleep(seconds))
    monkeypatch.setattr("taskengine.services.worker.wait", wait)
    hands.parts.client.away_since = -1000.0
    await worker._rest()
    hands.crew.direct.more = True
    await worker._rest()
    hands.parts.client.away_since = None
    hands.crew.direct.more = False
    await worker._rest()
    assert waited == [f"slept {IDLE}", "waited to be woken", "waited to be woken"]
