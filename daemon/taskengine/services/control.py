"""The control socket: whoever may open it has this one daemon reload, drain, or say how it stands.

One JSON object a line each way: `{"verb": "status"}`, and an answer with `ok`. Guarantees: the file
is its owner's alone; a socket that nobody listens on is replaced, another daemon's never is, nor is
any other file; who says nothing, too much or nonsense harms nobody; without the socket the daemon
works as before.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from taskengine.runtime.service import Service
from taskengine.telemetry.events import emit

Answer = Mapping[str, Any]
Verbs = Mapping[str, Callable[[], Answer]]

_MAX_BYTES = 4096
_SECONDS = 5.0  # for a request to come, and for its answer to be taken


class Control(Service):
    """Listens at `path`; `verbs` are set by whoever knows what they do, before it runs."""

    name = "control"

    def __init__(self, path: Path) -> None:
        self._path = path
        self.verbs: Verbs = {}

    async def run(self, ready: Callable[[], None]) -> None:
        """Answer until cancelled."""
        try:
            server = await asyncio.start_unix_server(
                self._serve, sock=_bound(self._path), limit=_MAX_BYTES
            )
        except OSError as error:
            emit("control.unavailable", path=str(self._path), error=error)
            ready()
            await asyncio.Event().wait()
            return
        try:
            ready()
            await server.serve_forever()
        finally:
            self._path.unlink(missing_ok=True)  # before another can take its place
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        try:
            async with asyncio.timeout(_SECONDS):
                answer = self._answer(await reader.readline())
                writer.write(json.dumps(answer, default=str).encode() + b"\n")
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            return  # gone, silent, or too long
        finally:
            writer.close()

    def _answer(self, line: bytes) -> Answer:
        try:
            request = json.loads(line)
            verb = self.verbs[request["verb"]]
        except (ValueError, TypeError, KeyError, RecursionError):
            return {"ok": False, "error": f"one of these is asked for: {', '.join(self.verbs)}"}
        return verb()


def _bound(path: Path) -> socket.socket:
    """A socket there that nobody else may open; OSError where a daemon listens already.

    Nobody can connect between bind and listen, so its mode is right in time.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _listens(path):
        raise FileExistsError(f"another daemon listens on {path}")
    if path.is_socket():
        path.unlink()
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(str(path))
        path.chmod(0o600)
    except OSError:
        bound.close()
        raise
    return bound


def _listens(path: Path) -> bool:
    """Whether somebody does; where it cannot be asked, OSError says why."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_SECONDS)
        try:
            asking.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True
