"""A sender of signed events, and the site that it sends them to."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from taskengine.config import Config, Webhooks
from taskengine.lifecycle.parts import Parts
from taskengine.model.definition import settings_from
from taskengine.runtime.service import Service
from taskengine.store import definitions
from taskengine.telemetry.events import subscribe
from taskengine.telemetry.metrics import Metrics
from taskengine.web.health import Health
from taskengine.web.server import WebServer
from taskengine.web.site import build_site

KEY = "whsk_test_0123456789abcdef"
OLD_KEY = "whsk_test_previous_fedcba9876543210"
SOURCE = {"scheme": "everee", "keys": [KEY, OLD_KEY], "job": "payroll-event", "queue": "payroll"}


def with_sources(config: Config, **more: Any) -> Config:
    """The configuration with one source, `everee`; `more` are other keys of `[webhooks]`."""
    values = {"sources": {"everee": SOURCE}} | more
    return config.model_copy(update={"webhooks": Webhooks.model_validate(values)})


def event(id_: str = "evt-1", type_: str = "payment.paid", **more: Any) -> bytes:
    """A body as Everee sends it."""
    return json.dumps({"version": "1", "id": id_, "companyId": 1, "type": type_} | more).encode()


def signed(body: bytes, stamp: int, *keys: str) -> dict[str, str]:
    """Everee's headers for a body, one signature for each key."""
    message = b"%d." % stamp + body
    made = [hmac.new(k.encode(), message, hashlib.sha256).hexdigest() for k in keys or (KEY,)]
    return {
        "x-everee-webhook-timestamp": str(stamp),
        "x-everee-webhook-signature": ",".join(f"v1={each}" for each in made),
        "content-type": "application/json",
    }


async def register(parts: Parts, name: str = "payroll-event", **settings: Any) -> None:
    """A definition, as its job's class would declare it."""
    async with parts.store.connection() as c:
        await definitions.register(c, [(name, settings_from(name, settings))])


class Site:
    """A running site, and what it told."""

    def __init__(self, parts: Parts, server: WebServer, http: httpx.AsyncClient) -> None:
        self.parts = parts
        self.server = server
        self.http = http
        self.events: list[tuple[str, dict[str, Any]]] = []

    def now(self) -> int:
        return int(self.parts.clock.now().timestamp())

    async def post(self, body: bytes, *keys: str, source: str = "everee") -> httpx.Response:
        """Send a body, signed now."""
        return await self.send(body, signed(body, self.now(), *keys), source)

    async def send(self, body: Any, headers: Any, source: str = "everee") -> httpx.Response:
        return await self.http.post(f"/webhooks/{source}", content=body, headers=headers)

    async def rows(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        async with self.parts.store.connection() as c:
            return [dict(row) for row in await c.fetch(statement, *arguments)]

    def told(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.events if event == name]


@asynccontextmanager
async def serving(
    parts: Parts,
    *,
    services: Sequence[Service] = (),
    draining: Callable[[], bool] = lambda: False,
) -> AsyncIterator[Site]:
    """The site over real HTTP, on a free port."""
    config = parts.config
    metrics = Metrics(
        version="test",
        queues=config.engine.queues,
        sources=list(config.webhooks.sources),
        now=lambda: parts.clock.now().timestamp(),
    )
    health = Health(parts, lambda: services, draining, remember=0.0)
    server = WebServer(build_site(parts, health, metrics), config.web, parts.clock)
    ready = asyncio.Event()
    running = asyncio.create_task(server.run(ready.set))
    ends = [metrics.subscribe()]
    try:
        await ready.wait()
        async with httpx.AsyncClient(base_url=server.address, timeout=20) as http:
            site = Site(parts, server, http)
            ends.append(subscribe(lambda name, fields: site.events.append((name, dict(fields)))))
            yield site
    finally:
        for end in ends:
            end()
        server.hurry()
        await server.drain()
        await running
