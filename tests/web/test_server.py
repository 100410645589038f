"""The HTTP server as a service, over real sockets."""

from __future__ import annotations

import asyncio

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from taskengine.config import Web
from taskengine.runtime.clock import SystemClock
from taskengine.web.server import WebServer


async def test_while_draining_the_answer_under_way_is_the_last_of_its_connection() -> None:
    begun, go_on, ready = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        begun.set()
        await go_on.wait()
        return PlainTextResponse("done")

    async def quick(request: Request) -> Response:
        return PlainTextResponse("done")

    site = Starlette(routes=[Route("/slow", slow), Route("/quick", quick)])
    server = WebServer(site, Web(port=0), SystemClock())
    serving = asyncio.create_task(server.run(ready.set))
    await ready.wait()
    async with httpx.AsyncClient(base_url=server.address) as client:
        assert "connection" not in (await client.get("/quick")).headers
        asked = asyncio.create_task(client.get("/slow"))
        await begun.wait()
        draining = asyncio.create_task(server.drain())
        await asyncio.sleep(0)
        go_on.set()
        answer = await asked
    await draining
    await serving
    assert (answer.text, answer.headers["connection"]) == ("done", "close")
