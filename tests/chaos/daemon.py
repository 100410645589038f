"""The daemon of the chaos suite: `taskengine run`, with an agent in it that does as it is told.

What nobody can do to a process from outside, the agent does inside: stand the event loop still,
take every connection of the engine's pool, set the wall clock wrong. `CHAOS_AGENT` names its socket,
`CHAOS_BOOT` a file with another boot id, so that to others this daemon lives on another machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from taskengine.app import leave, process, serve
from taskengine.config import Config
from taskengine.lifecycle import presence
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.clock import SystemClock
from taskengine.runtime.service import Service


class WrongClock(SystemClock):
    """The machine's clock, set wrong by as much as the agent was told."""

    offset = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset


class Agent(Service):
    """Waits at its socket for one word and one number of seconds a line."""

    name = "chaos-agent"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, ready: Callable[[], None]) -> None:
        path = Path(os.environ["CHAOS_AGENT"])
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._serve, path)
        ready()
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        word, seconds = (await reader.readline()).decode().split()
        writer.close()
        match word:
            case "block":
                time.sleep(float(seconds))
            case "exhaust":
                task = asyncio.create_task(self._exhaust(float(seconds)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case "offset":
                WrongClock.offset = timedelta(seconds=float(seconds))

    async def _exhaust(self, seconds: float) -> None:
        """Hold every connection of the pool, as a job that is not careful would."""
        end = time.monotonic() + seconds
        async with AsyncExitStack() as held:
            for _ in range(self._parts.config.postgres.pool_max):
                with suppress(Exception):
                    await held.enter_async_context(self._parts.store.connection())
            await asyncio.sleep(max(0.0, end - time.monotonic()))


def main() -> int:
    path = Path(sys.argv[1])
    if boot := os.environ.get("CHAOS_BOOT"):
        presence._BOOT_ID = Path(boot)
        if presence.boot_id() != Path(boot).read_text().strip():
            raise RuntimeError("this daemon does not live on another machine, as it should say")
    process.SystemClock = WrongClock  # type: ignore[attr-defined]
    return serve(Config.load(path), path, Agent)


if __name__ == "__main__":
    leave(main())
