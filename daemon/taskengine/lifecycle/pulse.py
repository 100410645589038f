"""The beating thread: on a connection of its own, so that a busy main loop still beats.

Each beat counts up, sends the claims held, asks which of them are lost or to be aborted and which
rows run under us that we do not hold, measures the database's clock, and renews leases. It stops
when the main loop has not answered it for `stall_limit`: a daemon that hangs must not look alive.
What it brings back is handed to the main loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from taskengine.errors import Away, ServiceFailed
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.presence import boot_id, proven_dead
from taskengine.store import executions, leases, queues, workers
from taskengine.store.execution_rows import HeldState
from taskengine.store.pool import Connection, Store
from taskengine.store.workers import Worker
from taskengine.telemetry.events import emit


@dataclass(frozen=True, slots=True)
class Beat:
    """What one beat brought back. `at` is monotonic: the middle of its round trip."""

    worker_id: int
    at: float
    now: datetime | None
    held: list[HeldState]
    living: list[Worker]
    proven: list[int]
    paused: set[str]


class Pulse:
    """`heard` and `failed` are called in the main loop: with a beat, or None for one that was missed,
    and with what ended the thread. `loops` says how the loops of this process stand."""

    def __init__(
        self,
        parts: Parts,
        crew: Crew,
        token: int,
        loops: Callable[[], str],
        heard: Callable[[Beat | None], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._parts = parts
        self._crew = crew
        self._token = token
        self._loops = loops
        self._heard = heard
        self._failed = failed
        self._asked_at = self._answered_at = parts.clock.monotonic()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Beat from now on, for the loop that runs here."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._thread, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """No beat after the one under way."""
        self._stopping.set()

    async def beat(self, c: Connection) -> Beat:
        """One beat."""
        worker_id, inflight = self._crew.identity.worker_id, self._crew.inflight
        clock = self._parts.clock
        begun = clock.monotonic()
        over = inflight.over_time(begun)
        now = await workers.beat(
            c, worker_id, over, self._loops(), draining=self._crew.identity.draining
        )
        at = (begun + clock.monotonic()) / 2
        pairs, known = inflight.held(), inflight.known()
        ids, tokens = [p[0] for p in pairs], [p[1] for p in pairs]
        held = await executions.held(c, worker_id, ids, tokens, known)
        living = await workers.living(c)
        paused = {pause.name for pause in await queues.paused(c)}
        await leases.renew(c, self._token, self._parts.config.heartbeat.lease)
        proven = proven_dead(living, worker_id, boot_id())
        return Beat(worker_id, at, now, held, living, proven, paused)

    def _thread(self) -> None:
        try:
            asyncio.run(self._beating())
        except Exception as error:
            failure = ServiceFailed(f"the heartbeat ended: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._call(self._failed, failure)

    async def _beating(self) -> None:
        settings = self._parts.config.postgres.model_copy(update={"pool_max": 1})
        store = await Store.open(settings, "taskengine-heartbeat")
        interval = self._parts.config.heartbeat.beat
        try:
            while not self._stopping.is_set():
                begun = self._parts.clock.monotonic()
                await self.turn(store)
                rest = interval - (self._parts.clock.monotonic() - begun)
                await asyncio.to_thread(self._stopping.wait, max(0.05, rest))
        finally:
            await store.close()

    async def turn(self, store: Store) -> None:
        """One beat, if the main loop answers and nobody has declared us dead."""
        self._forgive()
        self._call(self._answer)
        if self._is_stalled():
            emit("heartbeat.stalled")
            return
        if self._crew.identity.dead:
            return
        try:
            async with asyncio.timeout(self._parts.config.heartbeat.lease), store.connection() as c:
                beat = await self.beat(c)
        except (Away, TimeoutError) as error:
            emit("heartbeat.missed", error=error)
            self._call(self._heard, None)
        else:
            self._call(self._heard, beat)

    def _forgive(self) -> None:
        """A process that was stopped (SIGSTOP, a suspended host) has not been asked meanwhile: what
        went by beyond two beats from one turn to the next is not the main loop's silence."""
        now = self._parts.clock.monotonic()
        unasked = now - self._asked_at - (2 * self._parts.config.heartbeat.beat + 1.0)
        self._answered_at += max(0.0, unasked)
        self._asked_at = now

    def _is_stalled(self) -> bool:
        silence = self._parts.clock.monotonic() - self._answered_at
        return silence > self._parts.config.heartbeat.stall_limit

    def _answer(self) -> None:
        self._answered_at = self._parts.clock.monotonic()

    def _call(self, function: Callable[..., None], *args: object) -> None:
        """Have the main loop do it; nothing where the main loop is gone."""
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            self._stopping.set()
