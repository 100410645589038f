"""Cases of connections that are lost, and of stores that go and come."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr

from taskengine.config import Config
from taskengine.embedded import Servers
from taskengine.errors import BrokerUnavailable
from taskengine.lifecycle.parts import Parts, close_parts, open_parts
from taskengine.lifecycle.rebuild import remember
from taskengine.model.execution import Delivery
from taskengine.runtime.clock import SystemClock
from taskengine.services.deliveries import Deliveries
from taskengine.services.waker import Waker
from taskengine.store import migrate
from tests.cases import case_jobs as jobs
from tests.cases.support import Ground, case_registry
from tests.support.make import Hands, Spare, Told, a_job, settled_by
from tests.support.pooler import Pooler
from tests.support.proxy import Link
from tests.support.until import until


def _socket(servers: Servers) -> Path:
    return Path(servers.redis_url.removeprefix("unix://").split("?")[0])


@asynccontextmanager
async def behind(parts: Parts, **sections: dict[str, Any]) -> AsyncIterator[Parts]:
    """The same database and prefix, by other ways."""
    changed = {
        name: getattr(parts.config, name).model_copy(update=values)
        for name, values in sections.items()
    }
    config = parts.config.model_copy(update=changed)
    opened = await open_parts(config, parts.registry, SystemClock(), parts.rng, "behind")
    try:
        await remember(opened)
        yield opened
    finally:
        await close_parts(opened)


@asynccontextmanager
async def ground_on(spare: Spare, folder: Path) -> AsyncIterator[Ground]:
    """Daemons on servers that may be restarted."""
    name = f"cases_{folder.name}"[:60].replace("-", "_").lower()
    config = Config.model_validate(
        {
            "postgres": {"dsn": spare.servers.dsn, "schema": name},
            "redis": {"url": spare.servers.redis_url, "prefix": name},
        }
    )
    await migrate.up(config.postgres)
    opened = await open_parts(config, case_registry(), SystemClock(), random.Random(1), "cases")
    await remember(opened)
    ground = await Ground(opened, folder).open()
    try:
        yield ground
    finally:
        ground.end()
        await close_parts(opened)


@asynccontextmanager
async def proxied(parts: Parts, servers: Servers) -> AsyncIterator[tuple[Parts, Link]]:
    """Redis through a proxy that can fail."""
    async with Link(_socket(servers)) as link:
        url = SecretStr(f"redis://127.0.0.1:{link.port}/0")
        redis = {"url": url, "timeout": 2.0, "breaker": 0.05}
        async with behind(parts, redis=redis) as through:
            yield through, link


async def swept(hands: Hands) -> bool:
    """Whether all is settled; what a lost push left behind is delivered meanwhile."""
    sweep = Deliveries(hands.parts, hands.identity, hands.token)
    await hands.sql("update task_executions set check_at = now() where state = 'pending'")
    with suppress(BrokerUnavailable):
        await sweep.tick()
    return not await hands.sql("select from task_executions where state <> 'succeeded'")


async def test_c61_after_five_quick_drops_the_work_goes_on(parts: Parts, servers: Servers) -> None:
    async with proxied(parts, servers) as (through, link):
        hands = await Hands(through).join()
        await hands.know(a_job())
        async with hands.working():
            for _ in range(5):
                link.drop()
                await hands.dispatch()
                await asyncio.sleep(0.1)
            await parts.client.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await asyncio.gather(*(hands.dispatch() for _ in range(20)))
            await until(lambda: swept(hands))
        hands.die()


@pytest.mark.slow
async def test_c61_a_restart_with_empty_memory_is_noticed_and_mended(
    spare: Spare, tmp_path: Path
) -> None:
    async with ground_on(spare, tmp_path) as ground:
        daemon = ground.daemon()
        await ground.engine.dispatch_many([jobs.slow.call(seconds=0.1) for _ in range(100)])
        await ground.until_count("state = 'succeeded'", 10)
        await asyncio.to_thread(spare.embedded.restart_redis, keep_data=False)
        await ground.until_count("state = 'succeeded' and attempt = 1", 100)
        assert daemon.runs


@pytest.mark.slow
@pytest.mark.parametrize("keep_data", [True, False], ids=["persistent", "memory-lost"])
async def test_c65_delayed_work_outlives_a_restart_of_redis(
    spare: Spare, tmp_path: Path, keep_data: bool
) -> None:
    async with ground_on(spare, tmp_path) as ground:
        ground.daemon()
        for _ in range(20):
            await ground.engine.dispatch(jobs.quick.call(), delay=timedelta(seconds=3))
        await asyncio.sleep(1)
        await asyncio.to_thread(spare.embedded.restart_redis, keep_data=keep_data)
        await ground.until_count("state = 'succeeded' and claimed_at >= run_at", 20)
        assert set(ground.runs().values()) == {1}


async def test_c66_a_cancelled_command_leaves_its_reply_to_nobody(
    parts: Parts, servers: Servers
) -> None:
    """200 readers through 20 ms of delay, half of them cancelled: each gets its own value."""
    async with proxied(parts, servers) as (through, link):
        names = [f"{parts.keys.prefix}:own:{n}" for n in range(200)]
        for name in names:
            await parts.client.command("SET", name, name)
        link.delay(0.02)
        readers = [asyncio.create_task(through.client.command("GET", name)) for name in names]
        for wait, reader in enumerate(readers[::2]):
            asyncio.get_running_loop().call_later(0.001 * wait, reader.cancel)
        answers = await asyncio.gather(*readers, return_exceptions=True)
        link.delay(0)
        again = [await through.client.command("GET", name) for name in names]
    assert [str(a, "ascii") for a in again] == names
    got = [(a, n) for a, n in zip(answers, names, strict=True) if isinstance(a, bytes)]
    assert len(got) >= 100
    assert all(answer.decode() == name for answer, name in got)


async def test_c67_idle_is_quiet_a_black_hole_is_noticed_and_the_wait_ends_at_once(
    parts: Parts, servers: Servers, told: Told
) -> None:
    async with proxied(parts, servers) as (through, link):
        hands = await Hands(through).join()
        await hands.know(a_job())
        async with hands.working():
            await asyncio.sleep(1.2)
            assert not told.of("broker.away"), "idling is no trouble"
            link.black_hole()
            await until(lambda: told.of("broker.away"), 5)
            await link.heal()
            await hands.dispatch()
            await until(lambda: swept(hands))
            link.black_hole()
        await link.heal()
        hands.die()


async def test_c68_behind_a_transaction_pooler_the_verbs_need_no_session(
    parts: Parts, servers: Servers
) -> None:
    """`statement_cache = false` is the documented switch."""
    folder = parse_qs(urlsplit(servers.dsn).query)["host"][0]
    async with Pooler(Path(folder) / ".s.PGSQL.5432").running() as pooler:
        dsn = SecretStr(f"postgresql://taskengine@127.0.0.1:{pooler.port}/taskengine")
        async with behind(parts, postgres={"dsn": dsn, "statement_cache": False}) as through:
            hands = await Hands(through).join()
            await hands.know(a_job())
            async with hands.working():
                await asyncio.gather(*(hands.dispatch() for _ in range(50)))
                await settled_by(hands, "work")
            await hands.beat()
            hands.die()


async def test_c69_a_lost_subscription_is_made_again_and_what_came_meanwhile_is_looked_for(
    parts: Parts, servers: Servers
) -> None:
    """The listener on Postgres comes with transactional dispatch; the wake-up of Redis is of its
    kind: subscribed again, it wakes at once, because what was published before is not known."""
    async with proxied(parts, servers) as (through, link):
        heard: list[int] = []
        waker = Waker(through, lambda: heard.append(1))
        task = asyncio.create_task(waker.run(lambda: None))
        await until(lambda: len(heard) == 1)
        link.drop()
        await until(lambda: len(heard) == 2)
        await parts.queues.push([Delivery(1, "default", 1, True)])
        await until(lambda: len(heard) == 3)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
