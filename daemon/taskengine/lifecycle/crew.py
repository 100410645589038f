"""What one worker is made of: shared by the fetcher, the heartbeat and whoever shows how things stand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from taskengine.lifecycle.acquire import Acquirer
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.claiming import Lanes, free_lanes
from taskengine.lifecycle.direct import DirectMode
from taskengine.lifecycle.inflight import Inflight
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.pilot import Pilot
from taskengine.lifecycle.scribe import Scribe
from taskengine.lifecycle.settle import Settler
from taskengine.lifecycle.threads import Threads
from taskengine.model.context import Backstage


class Crew:
    """Built by the composition root. Needs a running event loop."""

    def __init__(
        self, parts: Parts, identity: Identity, backstage: Callable[[Inflight], Backstage]
    ) -> None:
        self.parts = parts
        self.identity = identity
        self.inflight = Inflight()
        self.backstage = backstage(self.inflight)
        self.scribe = Scribe(parts, self.inflight)
        self.settler = Settler(parts, self.inflight, self.scribe, identity.name)
        self.threads = Threads(parts.config.workers.threads)
        self.acquirer = Acquirer(parts, identity, self._lanes)
        self.direct = DirectMode(parts, self.acquirer)
        self.work = asyncio.Event()  # there may be work, or a free slot
        self.fetching = asyncio.Lock()  # held while claims are made and begun
        self.pilot = Pilot(parts.clock, self.inflight, self.settler, self.threads, self.work.set)
        self.slots = parts.config.workers.slots

    def _lanes(self) -> Lanes:
        return free_lanes(self.inflight, self.slots)

    @property
    def free_threads(self) -> int:
        """Threads that no flight has, or is about to take."""
        taken = sum(flight.threaded and not flight.ended for flight in self.inflight)
        return max(0, min(self.threads.free, self.threads.count - self.threads.lost - taken))

    @property
    def idle(self) -> bool:
        """Nothing runs, and nothing is being claimed that might."""
        return not len(self.inflight) and not self.fetching.locked()

    def quiet(self) -> None:
        """Take nothing more; what was reserved and has not begun goes back. What runs goes on."""
        self.identity.draining = True
        self.work.set()

    def resize(self, slots: int, threads: int) -> None:
        """So many slots and threads from now on; what runs is left to end."""
        self.slots = slots
        self.threads.resize(threads)
        self.work.set()
