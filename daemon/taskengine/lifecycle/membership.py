"""This daemon's membership: registered under an id, which it loses when it is declared dead.

A worker that learns it was declared dead aborts what it runs, settles nothing of it, and registers
anew under a new id.
"""

from __future__ import annotations

import os

from taskengine import __version__
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.presence import LockFile, boot_id, host
from taskengine.store import engine, leases, workers
from taskengine.store.workers import NewWorker


class Membership:
    """Registers, and takes its leave."""

    def __init__(self, parts: Parts, identity: Identity, token: int) -> None:
        self._parts = parts
        self._identity = identity
        self.token = token
        self._lock: LockFile | None = None

    async def join(self) -> None:
        """Register under a new id, with its lock file; the database's clock is measured."""
        config = self._parts.config
        worker = NewWorker(
            self._identity.name,
            host(),
            os.getpid(),
            boot_id(),
            __version__,
            config.workers.queues,
            self._parts.registry.names,
            config.workers.slots,
        )
        async with self._parts.store.connection() as c:
            worker_id = await workers.register(c, worker)
            identity, _ = await engine.identity(c)
            now = await engine.now(c)
            lock = LockFile(config.workers.lock_folder(), worker_id, identity[:8])
            if lock.take():
                await workers.set_lock_path(c, worker_id, str(lock.path))
        if self._lock is not None:
            self._lock.release()
        self._lock = lock
        self._identity.offset = now.timestamp() - self._parts.clock.monotonic()
        self._identity.worker_id = worker_id
        self._identity.dead = False

    async def leave(self) -> None:
        """The row says stopped; its leases and its lock file are free."""
        async with self._parts.store.transaction() as c:
            await workers.stop(c, self._identity.worker_id)
            await leases.release(c, self.token)
        if self._lock is not None:
            self._lock.release()
