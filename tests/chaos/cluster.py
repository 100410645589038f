"""What is under test: one Postgres, one Valkey, some daemons, and a faulty network between them.

Each daemon reaches each store by a link of its own, so one of them can be cut off alone; the client
of the load has links, too. Whoever judges connects directly. A daemon that ends by itself is started
again, as systemd would, and kept for the report.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import asyncpg

from taskengine.config import Config
from taskengine.embedded import EmbeddedServers
from taskengine.store import migrate
from tests.chaos import journal
from tests.chaos.settings import KEY_OF_HOOKS, configuration
from tests.support.daemon import Daemon
from tests.support.proxy import Link

__all__ = ["KEY_OF_HOOKS", "LOST", "Cluster", "Connection", "Member", "Process"]

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

LOST = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""A connection that is gone, as asyncpg may say it; the last one where it was cut in a statement."""

_ROOT = Path(__file__).parents[2]


class Process(Daemon):
    """A daemon with the agent in it."""

    def command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "tests.chaos.daemon", str(self._config)]

    @property
    def status(self) -> int | None:
        """How it ended; None: it runs."""
        return None if self._process is None else self._process.poll()


@dataclass
class Member:
    """One daemon with its two links. `wanted`: whoever finds it ended starts it again."""

    name: str
    process: Process
    postgres: Link
    redis: Link
    port: int
    agent: Path
    wanted: bool = False

    @property
    def links(self) -> tuple[Link, Link]:
        return self.postgres, self.redis

    async def tell(self, word: str, seconds: float) -> None:
        """A word to the agent; one that is not there does not hear it."""
        with suppress(OSError):
            _, writer = await asyncio.open_unix_connection(self.agent)
            writer.write(f"{word} {seconds}\n".encode())
            await writer.drain()
            writer.close()

    def start(self) -> None:
        self.wanted = True
        self.process.start()

    async def kill(self) -> None:
        self.wanted = False
        if self.process.runs:
            await asyncio.to_thread(self.process.kill)

    async def stop(self) -> int:
        self.wanted = False
        return await asyncio.to_thread(self.process.stop)

    def signal(self, number: signal.Signals) -> None:
        if self.process.runs:
            self.process.send(number)


@dataclass
class Cluster:
    """All of it, in a folder that keeps logs, journals and sockets."""

    folder: Path
    count: int
    members: list[Member] = field(default_factory=list)
    ends: list[tuple[str, int]] = field(default_factory=list)

    @property
    def code(self) -> Path:
        """A copy: what is edited during a run is not in it."""
        return self.folder / "code"

    async def start(self) -> None:
        self.servers = EmbeddedServers(self.folder)
        (self.folder / "journal" / "effects").mkdir(parents=True)
        for name in ("daemon", "tests"):
            shutil.copytree(_ROOT / name, self.code / name)
        await asyncio.to_thread(self.servers.start)
        self.client_links = await self._links()
        self.config = self._config("client", self.client_links, 0)
        await self._prepare()
        for number in range(self.count):
            self.members.append(await self.add(f"d{number + 1}"))
        for member in self.members:
            member.start()
        self._keeper = asyncio.create_task(self._keep())

    async def _prepare(self) -> None:
        await migrate.up(self.config.postgres)
        c = await self.connect()
        try:
            await c.execute("alter system set fsync = off")  # no crash here is the machine's
            await c.execute("select pg_reload_conf()")
            await c.execute((Path(__file__).parent / "observer.sql").read_text())
            for number in ("0101", "0102", "0103"):
                add = "insert into stores (type_num, name, time_zone) values ($1, $1, 'UTC')"
                await c.execute(add, number)
        finally:
            await c.close()

    async def add(self, name: str, *, knows_all: bool = True) -> Member:
        """A daemon that is not started yet. Every second one lives on another machine, as it says:
        its death is proved by silence alone."""
        postgres, redis = await self._links()
        port, agent = _free_port(), self.folder / f"{name}.sock"
        self._config(name, (postgres, redis), port, knows_all=knows_all)
        environ = {
            "CHAOS_AGENT": str(agent),
            journal.FOLDER: str(self.folder / "journal"),
            "PYTHONPATH": f"{self.code}{os.pathsep}{self.code / 'daemon'}",
        }
        if len(self.members) % 2:
            boot = self.folder / f"{name}.boot"
            boot.write_text(f"{name}\n")
            environ["CHAOS_BOOT"] = str(boot)
        log = self.folder / f"{name}.log"
        process = Process(self.folder / f"{name}.toml", log, environ)
        return Member(name, process, postgres, redis, port, agent)

    async def _links(self) -> tuple[Link, Link]:
        links = Link(self.servers.postgres.socket), Link(self.servers.valkey.socket)
        for link in links:
            await link.accept()
        return links

    def _config(
        self, name: str, links: tuple[Link, Link], port: int, *, knows_all: bool = True
    ) -> Config:
        path = self.folder / f"{name}.toml"
        text = configuration(self.folder, links[0].port, links[1].port, port, knows_all=knows_all)
        path.write_text(text)
        return Config.load(path)

    # ---- looking -----------------------------------------------------------------------------

    async def connect(self) -> Connection:
        """A direct connection, whatever the network does."""
        options = {"search_path": "taskengine", "default_transaction_read_only": "off"}
        return await asyncpg.connect(
            self.servers.postgres.dsn, timeout=10, command_timeout=60, server_settings=options
        )

    def running(self) -> Iterator[Member]:
        return (member for member in self.members if member.process.runs)

    def all_links(self) -> Iterator[Link]:
        yield from self.client_links
        for member in self.members:
            yield from member.links

    # ---- keeping -----------------------------------------------------------------------------

    async def _keep(self) -> None:
        """As systemd does: what ended and is wanted is started again after a second."""
        while True:
            await asyncio.sleep(0.5)
            for member in list(self.members):
                status = member.process.status
                if member.wanted and status is not None:
                    self.ends.append((member.name, status))
                    await asyncio.sleep(0.5)
                    if member.wanted:
                        member.start()

    async def stop(self) -> list[tuple[str, int]]:
        """End the daemons in order; how each ended."""
        self._keeper.cancel()
        stopped = await asyncio.gather(*(m.stop() for m in self.members if m.process.runs))
        names = [m.name for m in self.members]
        return list(zip(names, stopped, strict=False))

    async def close(self) -> None:
        """Nothing is left running, however far we came."""
        if hasattr(self, "_keeper"):
            self._keeper.cancel()
        for member in self.members:
            member.signal(signal.SIGCONT)
            await member.kill()
        if hasattr(self, "client_links"):
            for link in self.all_links():
                await link.close()
        await asyncio.to_thread(self.servers.remove)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
