"""Health, readiness and metrics answer fast, and say in words what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
import pytest_asyncio
from pydantic import SecretStr

from taskengine.broker.client import Client
from taskengine.config import Web
from taskengine.errors import BrokerUnavailable, ServiceFailed
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.clock import SystemClock
from taskengine.runtime.service import Periodic
from taskengine.store.pool import Store
from taskengine.web.server import WebServer, bind
from tests.support.webhooks import Site, register, serving


class Loop(Periodic):
    """A loop that stands still where it is told to."""

    name = "loop"

    def __init__(self, *, stands: bool) -> None:
        super().__init__(SystemClock(), 60.0)
        self._stands = stands

    async def tick(self) -> bool:
        self.found(seen=3)
        return False

    def stalled(self, now: float, limit: float) -> bool:
        return self._stands


@pytest_asyncio.fixture
async def site(parts: Parts) -> AsyncIterator[Site]:
    async with serving(parts) as site:
        yield site


# ---- /healthz ----------------------------------------------------------------------------------


async def test_healthz_shows_each_loops_last_turn(parts: Parts) -> None:
    loop = Loop(stands=False)
    running = asyncio.create_task(loop.run(lambda: None))
    while loop.last_turn is None:
        await asyncio.sleep(0)
    async with serving(parts, services=[loop]) as site:
        answer = await site.http.get("/healthz")
    running.cancel()
    shown = answer.json()["loops"]["loop"]
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    assert shown["age"] >= 0
    assert shown["found"] == {"seen": 3}


async def test_healthz_is_503_where_a_loop_stands_still(parts: Parts) -> None:
    async with serving(parts, services=[Loop(stands=True)]) as site:
        answer = await site.http.get("/healthz")
    assert (answer.status_code, answer.json()["stalled"]) == (503, ["loop"])


# ---- /readyz -----------------------------------------------------------------------------------


async def test_readyz(site: Site) -> None:
    answer = await site.http.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "problems": [], "redis": "up"}


async def test_readyz_is_503_while_draining(parts: Parts) -> None:
    async with serving(parts, draining=lambda: True) as site:
        answer = await site.http.get("/readyz")
        assert (answer.status_code, answer.json()["problems"]) == (503, ["draining"])
        assert (await site.http.get("/healthz")).status_code == 200


async def test_readyz_is_503_where_postgres_is_away(parts: Parts) -> None:
    nowhere = SecretStr("postgresql://nobody@127.0.0.1:1/nothing")
    settings = parts.config.postgres.model_copy(update={"dsn": nowhere})
    store = await Store.open(settings)
    config = parts.config.model_copy(update={"postgres": settings})
    async with serving(replace(parts, store=store, config=config)) as site:
        answer = await site.http.get("/readyz")
        assert (answer.status_code, answer.json()["problems"]) == (503, ["Postgres is away"])
    await store.close()


async def test_readyz_is_503_where_migrations_are_pending(site: Site) -> None:
    async with site.parts.store.connection() as c:
        await c.execute("delete from schema_migrations")
    answer = await site.http.get("/readyz")
    assert answer.status_code == 503
    assert "taskengine migrate up" in answer.json()["problems"][0]


async def test_readyz_is_503_where_rows_wait_in_a_queue_that_is_not_listed(site: Site) -> None:
    async with site.parts.store.connection() as c:
        for number, state in enumerate(("pending", "pending", "succeeded")):
            await c.execute(
                "insert into task_executions (job, queue, idempotency_key, state, finished_at)"
                " values ('x', 'gone', $1, $2, case when $2 = 'succeeded' then now() end)",
                str(number),
                state,
            )
    answer = await site.http.get("/readyz")
    assert answer.status_code == 503
    assert "2 executions wait in queue 'gone'" in answer.json()["problems"][0]


async def test_readyz_is_200_where_redis_is_away(parts: Parts) -> None:
    settings = parts.config.redis.model_copy(update={"url": SecretStr("unix:///nowhere.sock")})
    client = Client(settings, parts.clock)
    with pytest.raises(BrokerUnavailable):
        await client.command("PING")
    async with serving(replace(parts, client=client)) as site:
        answer = await site.http.get("/readyz")
        assert (answer.status_code, answer.json()["redis"]) == (200, "away")
    await client.close()


# ---- /metrics ----------------------------------------------------------------------------------


async def test_metrics_come_in_the_format_that_is_asked_for(site: Site) -> None:
    plain = await site.http.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'taskengine_queue_depth{queue="payroll",state="waiting"} 0.0' in plain.text
    modern = await site.http.get(
        "/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0"}
    )
    assert modern.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert modern.text.endswith("# EOF\n")


async def test_a_webhook_request_is_counted(site: Site) -> None:
    await site.http.post("/webhooks/nobody", content=b"{}")
    text = (await site.http.get("/metrics")).text
    line = 'taskengine_webhooks_received_total{result="unknown_source",source="other"} 1.0'
    assert line in text


# ---- the server --------------------------------------------------------------------------------


async def test_draining_answers_what_is_under_way_and_takes_nothing_new(parts: Parts) -> None:
    await register(parts)
    async with serving(parts) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(b"POST /webhooks/nobody HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n")
        await writer.drain()
        draining = asyncio.create_task(site.server.drain())
        await asyncio.sleep(0.1)
        with pytest.raises(httpx.ConnectError):
            await site.http.get("/healthz")
        writer.write(b"\r\n{}")
        assert b" 404 " in await reader.readline()
        writer.close()
        await draining


async def test_a_port_that_is_taken_is_a_failed_service_and_says_which() -> None:
    taken = await bind("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with pytest.raises(ServiceFailed, match=f"127.0.0.1:{port}"):
        await bind("127.0.0.1", port)
    taken.close()


async def test_it_serves_on_sockets_that_it_was_given(parts: Parts) -> None:
    given = await bind("127.0.0.1", 0)

    async def app(scope: object, receive: object, send: object) -> None:
        raise RuntimeError("broken")

    server = WebServer(app, Web(), SystemClock(), [given])
    ready = asyncio.Event()
    running = asyncio.create_task(server.run(ready.set))
    await ready.wait()
    assert server.port == given.getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as http:
        assert (await http.get("/")).status_code == 500
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert given.fileno() == -1
