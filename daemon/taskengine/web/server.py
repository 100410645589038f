"""The HTTP server as a service: uvicorn, without what it does to a process.

Guarantees: no signal handler is touched; `sys.exit` in there is a failed service; the sockets are
ours (bound here, or systemd's); ready means that it listens. Draining closes the listeners, leaves
what is under way half a second to be answered, then ends the rest within `_GRACEFUL` seconds; from
its begin each answer says `connection: close`, so that nobody asks again on a connection that ends.

h11 is chosen over httptools, which bounds neither a header's length nor their number.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskengine.config import Web
from taskengine.errors import ServiceFailed
from taskengine.runtime.clock import Clock
from taskengine.runtime.service import Service

_HEADER_BYTES = 128 * 1024
_LAST_ANSWERS = 0.5
_GRACEFUL = 5
_BACKLOG = 512


class WebServer(Service):
    """Serves one application. `sockets`: those of systemd; none: bound as configured."""

    name = "web"

    def __init__(
        self, app: ASGIApp, settings: Web, clock: Clock, sockets: Sequence[socket.socket] = ()
    ) -> None:
        self._app = app
        self._settings = settings
        self._clock = clock
        self._given = list(sockets)
        self._server: _Server | None = None
        self._ended = asyncio.Event()
        self.port: int | None = None

    @property
    def address(self) -> str:
        """`http://host:port`, once it listens."""
        host = self._settings.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port or self._settings.port}"

    async def run(self, ready: Callable[[], None]) -> None:
        sockets = self._given or [await bind(self._settings.host, self._settings.port)]
        self.port = _port(sockets[0])
        self._server = server = _Server(self._app, ready)
        self._ended.clear()
        try:
            await server.serve(sockets)
        except SystemExit as error:
            raise ServiceFailed(f"the web server gave up with status {error.code}") from error
        finally:
            server.close_at_once()
            self._ended.set()

    async def drain(self) -> None:
        """Close the listeners, wait for the last answers, end."""
        server = self._server
        if server is None:
            return
        server.close_listeners()
        if not server.force_exit:
            await self._clock.sleep(_LAST_ANSWERS)
        server.should_exit = True
        await self._ended.wait()

    def hurry(self) -> None:
        if self._server is not None:
            self._server.force_exit = True
            self._server.should_exit = True


class _Server(uvicorn.Server):
    """Tells when it listens, and leaves signals to the supervisor."""

    def __init__(self, app: ASGIApp, listening: Callable[[], None]) -> None:
        super().__init__(_config(_LastAnswers(app, lambda: self._leaving)))
        self.servers = []
        self._listening = listening
        self._leaving = False

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()

    def close_listeners(self) -> None:
        self._leaving = True
        for server in self.servers:
            server.close()

    def close_at_once(self) -> None:
        """However it ended: nothing stays open."""
        self.close_listeners()
        for connection in list(self.server_state.connections):
            connection.shutdown()


class _LastAnswers:
    """The application; once `leaving`, its answers are the last ones of their connections."""

    def __init__(self, app: ASGIApp, leaving: Callable[[], bool]) -> None:
        self._app = app
        self._leaving = leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def say(message: Message) -> None:
            if message["type"] == "http.response.start" and self._leaving():
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, say)


async def bind(host: str, port: int) -> socket.socket:
    """A listening socket at this address; `ServiceFailed` says why there is none."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ServiceFailed(
            f"cannot listen on {host}:{port} ([web] host, port): {error}"
        ) from error


def inherited(descriptors: Sequence[tuple[str, int]]) -> list[socket.socket]:
    """The sockets that systemd passed on (see `runtime.systemd.listen_fds`)."""
    return [socket.socket(fileno=descriptor) for _, descriptor in descriptors]


def _port(sock: socket.socket) -> int | None:
    address = sock.getsockname()
    return address[1] if isinstance(address, tuple) else None


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GRACEFUL,
        h11_max_incomplete_event_size=_HEADER_BYTES,
    )
