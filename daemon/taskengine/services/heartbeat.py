"""The heartbeat: what the main loop makes of each beat of the pulse.

Claims that are no longer ours are aborted, rows that we hold without knowing it are given back (seen
so on two beats), who is declared dead joins anew, and the other workers are watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from taskengine.errors import Away
from taskengine.lifecycle.beats import Identity, Watch
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.membership import Membership
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.pulse import Beat, Pulse
from taskengine.lifecycle.recover import give_back
from taskengine.runtime.service import Service
from taskengine.store import executions
from taskengine.store.execution_rows import HeldState
from taskengine.telemetry.events import emit


class Heartbeat(Service):
    """Joins, lets the pulse beat, heeds what it brings back."""

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
        self.pulse = Pulse(parts, crew, membership.token, loops, self.heard, self._fail)
        self._strays: set[tuple[int, int]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None

    async def run(self, ready: Callable[[], None]) -> None:
        """Join, beat until cancelled."""
        await self._join()
        self._failed = asyncio.get_running_loop().create_future()
        self.pulse.start()
        ready()
        try:
            await self._failed
        finally:
            self.pulse.stop()

    async def drain(self) -> None:
        """The last step of a shutdown: give back what was claimed and never begun; say goodbye."""
        self.pulse.stop()
        try:
            async with self._parts.store.connection() as c:
                held = await executions.held(
                    c, self._identity.worker_id, [], [], self._crew.inflight.known()
                )
            strays = [(h.id, h.token) for h in held if h.stray]
            await give_back(self._parts, strays, self._identity.name)
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

    def _fail(self, failure: Exception) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(failure)

    def heard(self, beat: Beat | None) -> None:
        """What follows from a beat, unless it is one of a former life; None: it was missed."""
        if beat is None:
            self._watch.missed()
            return
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
            self._spawn(give_back(self._parts, sorted(twice), self._identity.name))

    def _is_stray(self, state: HeldState) -> bool:
        """Its claim's reply was read or given up, and no flight came of it."""
        claiming = state.token in self._crew.acquirer.claiming
        return not claiming and self._crew.inflight.get(state.id) is None

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
