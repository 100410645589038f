"""A TCP proxy that breaks connections on purpose: one listener in front of one server.

What it does to a link is what networks do: delay, reset, a reply cut in its middle, a reply lost
after the server has worked, connections that are dead without saying so (half-open), a black hole
that lets everything through once it ends, a refused connect. Upstream is a Unix socket or a TCP
address; it may be away.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_CHUNK = 64 * 1024
Address = Path | tuple[str, int]


@dataclass(eq=False)
class _Pair:
    """A client's connection and ours to the server. `dead`: nothing comes through any more."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    dead: bool = False

    def abort(self) -> None:
        """Reset both sides."""
        for side in (self.client, self.server):
            side.transport.abort()


class Link:
    """One way to one server, with the faults of a network. All calls are of the event loop's."""

    def __init__(self, upstream: Address) -> None:
        self._upstream = upstream
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._latency = 0.0
        self._cut_at: int | None = None
        self._losing = False
        self.port = 0
        self.closed = False

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- faults ------------------------------------------------------------------------------

    def delay(self, seconds: float) -> None:
        """Every piece, either way, is late by so much."""
        self._latency = seconds

    def drop(self) -> None:
        """Reset what is connected now; new connections work."""
        for pair in list(self._pairs):
            pair.abort()

    def cut_replies(self, after: int) -> None:
        """From now on each reply is cut after so many bytes, and its connection with it."""
        self._cut_at = after

    def lose_replies(self) -> None:
        """From now on requests arrive and are worked on; each reply is lost, its connection cut."""
        self._losing = True

    def half_open(self) -> None:
        """What is connected now is dead, and nobody is told; new connections work."""
        for pair in self._pairs:
            pair.dead = True
            pair.server.transport.abort()

    def black_hole(self) -> None:
        """Nothing comes through either way, and new connections are accepted and not answered."""
        self._open.clear()

    async def refuse(self) -> None:
        """Nobody listens here any more; what is connected is reset."""
        await self._stop_listening()
        self.drop()

    async def accept(self) -> None:
        """Listen, on the same port as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def heal(self) -> None:
        """No fault any more; what a black hole held back comes through now."""
        self._latency, self._cut_at, self._losing = 0.0, None, False
        for pair in [pair for pair in self._pairs if pair.dead]:
            pair.abort()
        self._open.set()
        await self.accept()

    async def close(self) -> None:
        self.closed = True
        await self._stop_listening()
        self.drop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stop_listening(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    # ---- the way through ---------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(OSError, asyncio.CancelledError):
            try:
                await self._open.wait()
                back, server = await self._connect()
                await self._carry(_Pair(client, server), reader, back)
            finally:
                client.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._upstream, Path):
            return await asyncio.open_unix_connection(self._upstream)
        return await asyncio.open_connection(*self._upstream)

    async def _carry(
        self, pair: _Pair, requests: asyncio.StreamReader, replies: asyncio.StreamReader
    ) -> None:
        self._pairs.add(pair)
        there = asyncio.create_task(self._forward(pair, requests))
        back = asyncio.create_task(self._backward(pair, replies))
        try:
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            if pair.dead:
                await asyncio.wait((there,))
        finally:
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
            self._pairs.discard(pair)
            pair.abort()

    async def _forward(self, pair: _Pair, requests: asyncio.StreamReader) -> None:
        while data := await requests.read(_CHUNK):
            await self._pass()
            if not pair.dead:
                pair.server.write(data)
                await pair.server.drain()

    async def _backward(self, pair: _Pair, replies: asyncio.StreamReader) -> None:
        while data := await replies.read(_CHUNK):
            await self._pass()
            if self._losing:
                return
            if self._cut_at is not None:
                pair.client.write(data[: self._cut_at])
                await pair.client.drain()
                return
            pair.client.write(data)
            await pair.client.drain()

    async def _pass(self) -> None:
        """The delay, and the black hole's end."""
        if self._latency:
            await asyncio.sleep(self._latency)
        await self._open.wait()
