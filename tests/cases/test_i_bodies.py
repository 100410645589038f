"""Cases of webhooks' bodies: without an end, of a false length, and unreadable."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest

from taskengine.config import Config
from taskengine.lifecycle.parts import Parts
from tests.cases.support import Ground, free_port
from tests.support.until import until
from tests.support.webhooks import SOURCE, event, register, serving, signed, with_sources


@pytest.mark.slow
async def test_c92_an_endless_body_is_ended_while_it_is_read(ground: Ground) -> None:
    """Ten senders of 200 MB each to a real daemon: its memory stays, and others are served."""
    web = {"port": free_port()}
    sources = {"webhooks.sources.everee": SOURCE | {"job": "quick"}}
    daemon = ground.daemon(None, web=web, **sources)
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(200 * 16):
            sent += 65_536
            yield b" " * 65_536

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{web['port']}") as http:

        async def post(body: Any) -> int:
            headers = signed(body if isinstance(body, bytes) else b"", int(time.time()))
            return (await http.post("/webhooks/everee", content=body, headers=headers)).status_code

        await until(lambda: _answers(post(event("first"))))
        before = daemon.rss()
        answers = await asyncio.gather(
            *(post(endless()) for _ in range(10)), post(event("other")), return_exceptions=True
        )
        assert answers.pop() == 200
        refused = [a for a in answers if not isinstance(a, httpx.TransportError)]
        assert set(refused) <= {413}, "or it hung up on us while we were still sending"
        assert sent < 10 * 20_000_000, "the rest was not read"
        assert daemon.rss() - before < 30
    assert await asyncio.to_thread(daemon.stop) == 0


async def _answers(status: Awaitable[int]) -> bool:
    with suppress(httpx.TransportError):
        return await status == 200
    return False


async def test_c92_a_false_length_and_a_bomb_are_refused(parts: Parts, config: Config) -> None:
    through = replace(parts, config=with_sources(config))
    await register(through)
    async with serving(through) as site:
        for length, expected in ((10**12, b" 413 "), (-1, b" 400 "), ("1_0", b" 400 ")):
            reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
            writer.write(b"POST /webhooks/everee HTTP/1.1\r\nhost: x\r\n")
            writer.write(f"content-length: {length}\r\n\r\n".encode() + b"{}")
            assert expected in await reader.readline()
            writer.close()
        bomb = gzip.compress(b" " * 50_000_000)
        headers = signed(bomb, site.now()) | {"content-encoding": "gzip"}
        assert (await site.send(bomb, headers)).status_code == 400, "it is never unpacked"
        assert await site.rows("select from webhook_events") == []


@pytest.mark.parametrize(
    ("body", "answer", "status"),
    [
        (b"[" * 1500 + b"]" * 1500, 400, None),
        (b"[" * 20_000 + b"]" * 20_000, 400, None),
        (b'{"id": ' + b"9" * 5000 + b"}", 400, None),
        (b"\xef\xbb\xbf{}", 400, None),
        (b'{"id": "\xff"}', 400, None),
        (b"", 400, None),
        (b"7", 200, "invalid"),
        (b'{"id":"a","id":"e","type":"t"}', 200, "received"),
    ],
    ids=["deep", "deeper", "digits", "bom", "bad-utf8", "empty", "scalar", "duplicate-keys"],
)
async def test_c93_unusable_bodies_are_400_signed_and_401_unsigned(
    parts: Parts, config: Config, body: bytes, answer: int, status: str | None
) -> None:
    through = replace(parts, config=with_sources(config))
    await register(through)
    async with serving(through) as site:
        assert (await site.send(body, {})).status_code == 401
        assert (await site.post(body)).status_code == answer
        rows = await site.rows("select status from webhook_events")
        assert [row["status"] for row in rows] == ([] if status is None else [status])
