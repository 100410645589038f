"""What a running job's context needs of the engine: cursors, store databases, the time.

The same calls serve coroutines and threads: in a thread they are carried to the event loop and
block there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from datetime import datetime
from typing import Any, TypeVar

from taskengine.errors import ClaimLost
from taskengine.lifecycle.inflight import Inflight
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.store_databases import StoreDatabases, StoreSession
from taskengine.model.context import JobContext
from taskengine.model.surroundings import Done, OpensDatabase
from taskengine.store import executions

T = TypeVar("T")


class Engine:
    """The backstage of every job of this process."""

    def __init__(
        self, parts: Parts, inflight: Inflight, databases: StoreDatabases, worker: str
    ) -> None:
        self.worker = worker
        self._parts = parts
        self._inflight = inflight
        self._databases = databases
        self._loop = asyncio.get_running_loop()

    def now(self) -> datetime:
        return self._parts.clock.now()

    def changed(self, ctx: JobContext) -> None:
        """Have its progress and log lines written with the next flush."""
        flight = self._inflight.get(ctx.execution_id)
        if flight is not None and flight.ctx is ctx:
            self._inflight.touch(flight)

    def save_cursor(self, ctx: JobContext, text: str) -> Awaitable[None]:
        saving = self._save(ctx, text)
        if not ctx.in_thread:
            return saving
        self.carry(saving)
        return Done()

    def store_db(self, ctx: JobContext) -> OpensDatabase:
        return StoreSession(self._databases, ctx.type_num, self.carry)

    def carry(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work on the event loop, from a thread, and wait for it there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _save(self, ctx: JobContext, text: str) -> None:
        async with self._parts.store.connection() as c:
            kept = await executions.save_cursor(c, ctx.execution_id, ctx.claim.token, text)
        if not kept:
            raise ClaimLost(f"execution {ctx.execution_id} is no longer ours: cursor not kept")
