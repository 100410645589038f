"""A pooler before Postgres that pools transactions, as pgbouncer does, in a hundred lines.

Every client begins with a connection of its own; then a client has a server only from its first
message to the end of its transaction, the one that was given back last first.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from pathlib import Path

_SSL, _CANCEL = 80877103, 80877102
_READY = ord("Z")
_IDLE = b"I"

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Pooler:
    """Listens on a port of this host; speaks to the server at a Unix socket."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._free: list[Pair] = []
        self._all: list[asyncio.StreamWriter] = []
        self.port = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Pooler]:
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self._all:
                writer.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._all.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            startup = await self._startup(reader, writer)
            if startup:
                await self._begin(startup, writer)
                await self._serve(reader, writer)
        writer.close()

    async def _startup(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Its first packet; TLS is refused, a cancel ignored."""
        while True:
            head = await reader.readexactly(4)
            body = await reader.readexactly(struct.unpack("!i", head)[0] - 4)
            code = struct.unpack("!i", body[:4])[0]
            if code == _SSL:
                writer.write(b"N")
            else:
                return b"" if code == _CANCEL else head + body

    async def _begin(self, startup: bytes, writer: asyncio.StreamWriter) -> None:
        """A server of its own greets it, and is free then."""
        server = await asyncio.open_unix_connection(str(self._socket))
        self._all.append(server[1])
        server[1].write(startup)
        await _until_ready(server[0], writer)
        self._free.append(server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held = _Held()
        while True:
            kind, message = await _message(reader)
            if kind == ord("X"):
                break
            if held.server is None:
                while not self._free:
                    await asyncio.sleep(0.01)
                held.server = self._free.pop()
                held.pump = asyncio.create_task(self._pump(held, held.server, writer))
            held.asked += kind in b"QS"
            held.server[1].write(message)

    async def _pump(self, held: _Held, server: Pair, writer: asyncio.StreamWriter) -> None:
        """Pass on what the server says, until all is answered and no transaction is open."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while held.asked or held.server is server:
                state = await _until_ready(server[0], writer)
                held.asked -= 1
                if not held.asked and state == _IDLE:
                    held.server = None
                    self._free.append(server)
                    return


class _Held:
    """The server that a client has, and how many answers it waits for."""

    server: Pair | None = None
    pump: asyncio.Task[None] | None = None
    asked = 0


async def _message(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readexactly(5)
    return head[0], head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


async def _until_ready(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Pass on what the server says, until it is ready; its state then."""
    while True:
        kind, message = await _message(reader)
        writer.write(message)
        if kind == _READY:
            return message[5:6]
