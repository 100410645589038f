"""Cases of deliveries that are lost."""

from __future__ import annotations

import asyncio
import logging
import random
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from taskengine.app.process import measure
from taskengine.insight import findings
from taskengine.insight.problems import problems
from taskengine.model.execution import Delivery
from taskengine.services.deliveries import Deliveries
from taskengine.services.divergence import Divergence
from taskengine.services.gauges import GaugeRefresher
from taskengine.services.promoter import Promoter
from taskengine.telemetry.wording import level_of
from tests.cases import case_jobs as jobs
from tests.cases.support import Ground
from tests.support.make import Hands, Told, a_job, settled_by
from tests.support.until import until


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["reserved", "claimed", "begun", "acknowledged", "ended", "settled"]
)
async def test_c02_killed_between_any_two_steps(ground: Ground, point: str) -> None:
    """SIGKILL just there: afterwards all are done, an attempt is used only where a claim was held,
    and nothing is left in Redis."""
    await ground.engine.dispatch_many([jobs.quick.call() for _ in range(5)])
    doomed = ground.daemon(dies_at=point)
    await ground.until_dead(doomed)
    ground.daemon()
    await ground.until_count("state = 'succeeded'", 5)
    assert await ground.left() == {"queue": 0, "processing": 0, "delayed": 0}
    used, runs = await ground.count("attempt > 1"), ground.runs()
    if point == "settled":
        assert used < 5
    else:
        assert used == (0 if point == "reserved" else 5)
    assert await ground.count("attempt > 2 or orphanings <> attempt - 1") == 0
    assert len(runs) == 5
    assert max(runs.values()) <= (1 if point == "reserved" else 2)


async def test_c04_a_server_that_may_evict_is_a_loud_problem(hands: Hands, told: Told) -> None:
    gauges = measure(hands.parts).gauges
    before = (await hands.redis("CONFIG", "GET", "maxmemory-policy"))[1]
    await hands.redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        found = problems(await findings.read(hands.parts))
        await GaugeRefresher(hands.parts, hands.crew, hands.token, gauges).tick()
    finally:
        await hands.redis("CONFIG", "SET", "maxmemory-policy", before)
    (problem,) = [each for each in found if each.code == "redis.evicts"]
    assert "allkeys-lru" in problem.text
    assert "noeviction" in problem.text
    assert told.of("broker.evicts") == [{"policy": "allkeys-lru"}]
    assert level_of("broker.evicts") == logging.WARNING


async def test_c04_what_a_flush_took_is_delivered_again_and_runs_once(hands: Hands) -> None:
    begun: list[int] = []

    async def body(ctx: Any) -> None:
        begun.append(ctx.execution_id)

    await hands.know(a_job(body=body))
    ids = [(await hands.dispatch()).execution_id for _ in range(50)]
    keys = await hands.redis("KEYS", f"{hands.parts.keys.prefix}:*")
    await hands.redis("DEL", *keys)
    await Divergence(hands.parts, hands.identity, hands.token).tick()
    async with hands.working():
        await settled_by(hands, "work")
    assert sorted(begun) == ids


@pytest.mark.slow
async def test_c05_a_promoter_killed_at_random_loses_no_delayed_one(ground: Ground) -> None:
    """SIGKILL at any moment while another client adds: all are delayed or queued at all times."""
    queues, rng, added = ground.parts.queues, random.Random(5), [0]
    config = ground.write_config()

    async def add() -> None:
        for start in range(1, 5001, 100):
            await queues.delay([_delivery(n) for n in range(start, start + 100)])
            added[0] += 100
            await asyncio.sleep(0.02)

    async def total() -> int:
        return sum((await ground.left()).values())

    adding = asyncio.create_task(add())
    for _ in range(4):
        before = (await ground.left())["queue"]
        command = [sys.executable, "-m", "tests.cases.promoting", str(config)]
        with subprocess.Popen(command) as promoter:
            await until(lambda before=before: _more_queued(ground, before))  # type: ignore[misc]
            await asyncio.sleep(rng.random() * 0.05)
            promoter.kill()
        known = added[0]
        assert known <= await total() <= added[0] + 100
    await adding
    assert await total() == 5000
    hands = await Hands(ground.parts).join()
    await hands.beat()
    while (await ground.left())["delayed"]:
        await Promoter(ground.parts, hands.identity).tick()
    hands.die()
    assert await ground.left() == {"queue": 5000, "processing": 0, "delayed": 0}


async def _more_queued(ground: Ground, before: int) -> bool:
    left = await ground.left()
    return left["queue"] > before or not left["delayed"]


def _delivery(execution_id: int) -> Delivery:
    return Delivery(execution_id, "default", execution_id, False)


async def test_c06_a_message_whose_row_is_not_there_is_dropped(hands: Hands) -> None:
    await hands.know(a_job())
    await hands.redis("ZADD", hands.parts.keys.queue("default"), 1, 10**12)
    good = await hands.dispatch()
    async with hands.working():
        await settled_by(hands, "work")
    assert await hands.state(good.execution_id) == "succeeded"
    assert sum(map(sum, (await hands.parts.queues.depths()).values())) == 0


async def test_c06_a_message_without_a_row_is_told_and_counted_one_of_what_has_ended_is_not(
    hands: Hands, told: Told
) -> None:
    await hands.know(a_job())
    metrics = measure(hands.parts)
    ended = await hands.running()
    await hands.settle(ended)
    for n, gone in enumerate((ended.id, 10**12, 10**12 + 1)):
        await hands.redis("ZADD", hands.parts.keys.queue("default"), n, gone)
    reserved = await hands.reserve()
    claims = await hands.crew.acquirer.claim(reserved, hands.worker_id)
    await hands.crew.acquirer.put_away(reserved, claims)
    said = [(each["queue"], each["count"]) for each in told.of("queue.rowless_dropped")]
    assert said == [("default", 2)]
    name = "taskengine_queue_rowless_dropped_total"
    assert metrics.registry.get_sample_value(name, {"queue": "default"}) == 2
    assert sum(map(sum, (await hands.parts.queues.depths()).values())) == 0


async def test_c06_a_row_that_commits_after_its_message_runs_once_all_the_same(
    hands: Hands,
) -> None:
    begun: list[int] = []

    async def body(ctx: Any) -> None:
        begun.append(ctx.execution_id)

    await hands.know(a_job(body=body))
    next_id = (await hands.insert(key="before")).id + 1
    await hands.redis("ZADD", hands.parts.keys.queue("default"), 1, next_id)
    async with hands.working():
        await asyncio.sleep(0.1)  # it is reserved, and its row is not there
        late = await hands.insert(key="late")
        assert late.id == next_id
        await hands.sql("update task_executions set check_at = now()")
        await Deliveries(hands.parts, hands.identity, hands.token).tick()
        await settled_by(hands, "work")
    assert begun.count(next_id) == 1


@pytest.mark.slow
async def test_c08_a_restart_puts_back_what_it_stopped(ground: Ground) -> None:
    daemon = ground.daemon()
    await ground.engine.dispatch_many([jobs.long_at_first.call() for _ in range(5)])
    await ground.until_count("state = 'running'", 5)
    assert await asyncio.to_thread(daemon.stop) == 0
    assert await ground.count("state = 'pending' and interruptions = 1 and attempt = 1") == 5
    assert await ground.count("state = 'running'") == 0
    ground.daemon()
    await ground.until_count("state = 'succeeded' and attempt = 1", 5)


@pytest.mark.slow
async def test_c09_a_delay_longer_than_every_grace_is_nobodys_orphan(ground: Ground) -> None:
    """Graces, sweeps and leases of 0.3 to 1.2 s; the delay is 4 s."""
    ground.daemon()
    await ground.engine.dispatch(jobs.quick.call(), delay=timedelta(seconds=4))
    await ground.until_count("state = 'succeeded' and claimed_at >= run_at", 1)
    assert await ground.count("attempt = 1 and orphanings = 0 and fence = 1") == 1
    assert sum(ground.runs().values()) == 1
