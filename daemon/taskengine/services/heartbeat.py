"""The heartbeat: in a thread and on a connection of its own, so that a busy loop still beats.

Each beat counts up, sends the claims held, learns which of them are lost or to be aborted and which
rows run under us that we do not hold, measures the database's clock, renews leases, and watches the
other workers. It stops when the main loop has not answered it for `stall_limit`: a daemon that
hangs must not look alive.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskengine.errors import Away, ServiceFailed
from taskengine.lifecycle.beats import Identity, Watch
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.membership import Membership
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.presence import boot_id, proven_dead
from taskengine.lifecycle.reporting import tell_recovered
from taskengine.lifecycle.waking import deliver_moved
from taskengine.runtime.service import Service
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


class Heartbeat(Service):
    """The beating thread, and what the main loop makes of each beat."""

    name = "heartbeat"

    def __init__(
        self,
        parts: Parts,
        crew: Crew,
        membership: Membership,
        watch: Watch,
        loops: Callable[[], str],
    ) -> None:
        self._parts = parts
        self._crew = crew
        self._identity: Identity = crew.identity
        self._membership = membership
        self._watch = watch
        self._loops = loops
        self._strays: set[tuple[int, int]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked_at = self._answered_at = parts.clock.monotonic()
        self._stopping = threading.Event()
        self._failed: asyncio.Future[None] | None = None

    async def run(self, ready: Callable[[], None]) -> None:
        """Join, beat until cancelled."""
        await self._join()
        self._loop = asyncio.get_running_loop()
        self._failed = self._loop.create_future()
        thread = threading.Thread(target=self._thread, name="heartbeat", daemon=True)
        thread.start()
        ready()
        try:
            await self._failed
        finally:
            self._stopping.set()

    async def drain(self) -> None:
        """The last step of a shutdown: give back what was claimed and never begun; say goodbye."""
        self._stopping.set()
        try:
            async with self._parts.store.connection() as c:
                held = await executions.held(
                    c, self._identity.worker_id, [], [], self._crew.inflight.known()
                )
            strays = [(h.id, h.token) for h in held if h.stray]
            await self._release(strays)
            await self._membership.leave()
        except Away as error:
            emit("heartbeat.left_unsaid", error=error)

    async def _join(self) -> None:
        """Register, waiting for a Postgres that is away."""
        while True:
            try:
                await self._membership.join()
            except Away as error:
                emit("loop.away", loop=self.name, error=error, seconds=0.0)
                await self._parts.clock.sleep(1.0)
            else:
                emit("worker.joined", worker_id=self._identity.worker_id)
                return

    # ---- in the thread -----------------------------------------------------------------------

    def _thread(self) -> None:
        try:
            asyncio.run(self._beating())
        except Exception as error:
            failure = ServiceFailed(f"the heartbeat ended: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._call(self._fail, failure)

    async def _beating(self) -> None:
        settings = self._parts.config.postgres.model_copy(update={"pool_max": 1})
        store = await Store.open(settings, "taskengine-heartbeat")
        interval = self._parts.config.heartbeat.beat
        try:
            while not self._stopping.is_set():
                begun = self._parts.clock.monotonic()
                await self._turn(store)
                rest = interval - (self._parts.clock.monotonic() - begun)
                await asyncio.to_thread(self._stopping.wait, max(0.05, rest))
        finally:
            await store.close()

    async def _turn(self, store: Store) -> None:
        self._forgive()
        self._call(self._answer)
        if self._is_stalled():
            emit("heartbeat.stalled")
            return
        if self._identity.dead:
            return
        try:
            async with asyncio.timeout(self._parts.config.heartbeat.lease), store.connection() as c:
                beat = await self._beat(c)
        except (Away, TimeoutError) as error:
            emit("heartbeat.missed", error=error)
            self._call(self._watch.missed)
        else:
            self._call(self._apply, beat)

    async def _beat(self, c: Connection) -> Beat:
        worker_id, inflight = self._identity.worker_id, self._crew.inflight
        clock = self._parts.clock
        begun = clock.monotonic()
        over = inflight.over_time(begun)
        now = await workers.beat(
            c, worker_id, over, self._loops(), draining=self._identity.draining
        )
        at = (begun + clock.monotonic()) / 2
        pairs, known = inflight.held(), inflight.known()
        ids, tokens = [p[0] for p in pairs], [p[1] for p in pairs]
        held = await executions.held(c, worker_id, ids, tokens, known)
        living = await workers.living(c)
        paused = {pause.name for pause in await queues.paused(c)}
        await leases.renew(c, self._membership.token, self._parts.config.heartbeat.lease)
        proven = proven_dead(living, worker_id, boot_id())
        return Beat(worker_id, at, now, held, living, proven, paused)

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

    def _call(self, function: Callable[..., None], *args: object) -> None:
        """Have the main loop do it; nothing where the main loop is gone."""
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            self._stopping.set()

    # ---- in the main loop --------------------------------------------------------------------

    def _answer(self) -> None:
        self._answered_at = self._parts.clock.monotonic()

    def _fail(self, failure: Exception) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(failure)

    def _apply(self, beat: Beat) -> None:
        """What follows from a beat, unless it is one of a former life."""
        if beat.worker_id != self._identity.worker_id or self._identity.dead:
            return
        if beat.now is None:
            self._die()
            return
        self._identity.offset = beat.now.timestamp() - beat.at
        self._identity.last_beat = beat.at
        self._watch.observe(
            beat.at, [(w.id, w.beat) for w in beat.living if w.id != beat.worker_id]
        )
        self._watch.proven(beat.proven)
        self._resume(beat.paused)
        self._tell_flights(beat.held)

    def _resume(self, paused: set[str]) -> None:
        if self._crew.acquirer.paused - paused:
            self._crew.work.set()
        self._crew.acquirer.paused = paused

    def _tell_flights(self, held: list[HeldState]) -> None:
        strays = {(h.id, h.token) for h in held if h.stray and self._is_stray(h)}
        for state in held:
            flight = self._crew.inflight.get(state.id)
            if flight is None or flight.claim.token != state.token:
                continue
            if state.lost:
                if not flight.ended:
                    self._crew.pilot.lose(flight)
            elif state.abort:
                self._crew.pilot.abort(flight)
        twice, self._strays = strays & self._strays, strays
        if twice:
            self._spawn(self._release(sorted(twice)))

    def _is_stray(self, state: HeldState) -> bool:
        """Its claim's reply was read or given up, and no flight came of it."""
        claiming = state.token in self._crew.acquirer.claiming
        return not claiming and self._crew.inflight.get(state.id) is None

    async def _release(self, strays: list[tuple[int, int]]) -> None:
        if not strays:
            return
        moved = await self._membership.release(strays)
        tell_recovered(moved, self._identity.name)
        await deliver_moved(self._parts, moved)

    def _die(self) -> None:
        """Somebody declared us dead: nothing that we hold is ours."""
        self._identity.dead = True
        emit("worker.declared_dead", worker_id=self._identity.worker_id)
        for flight in self._crew.inflight:
            self._crew.pilot.lose(flight)
        self._spawn(self._rejoin())

    async def _rejoin(self) -> None:
        await self._join()
        self._crew.work.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """What a beat set off: a store that is away ends it, the next beat begins it again; any
        other error ends the service, or a worker that cannot register anew would idle for ever."""
        try:
            await work
        except Away as error:
            emit("heartbeat.postponed", error=error)
        except Exception as error:
            self._fail(error)
