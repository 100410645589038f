"""The process as tiers of services: started left to right, drained and ended right to left.

Guarantees: a tier starts when all of the one before are ready; a tier is ended only when all to its
right have ended; a service that raises, returns or stalls ends the process, after everything else
was drained, and its error is raised; no wait here is without a limit, but for a service that
swallows its cancellation for good (told as `service.stuck`). The watchdog is fed only while every
loop moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from taskengine.errors import ConfigError, MigrationError, ServiceFailed, WrongDatabase
from taskengine.runtime.clock import Clock, wait
from taskengine.runtime.service import Service
from taskengine.runtime.systemd import Notifier
from taskengine.telemetry.events import emit

EXIT_OK, EXIT_FAILED, EXIT_CONFIG = 0, 1, 78


def exit_status(error: BaseException | None) -> int:
    """0: was asked to stop; 78: would fail again just so (do not restart); 1: anything else."""
    if error is None:
        return EXIT_OK
    return (
        EXIT_CONFIG
        if isinstance(error, ConfigError | MigrationError | WrongDatabase)
        else EXIT_FAILED
    )


@dataclass(frozen=True)
class Tier:
    """Services that start and end together, and why they stand where they stand."""

    reason: str
    services: tuple[Service, ...]


@dataclass(frozen=True)
class Limits:
    """Seconds: without progress · for a tier's drain · for what follows a cancellation or hurry ·
    between two looks at the loops (a third of systemd's watchdog where there is one)."""

    stall: float = 60.0
    drain: float = 90.0
    grace: float = 5.0
    look: float = 5.0


@dataclass
class _Child:
    service: Service
    scope: anyio.CancelScope = field(default_factory=lambda: anyio.CancelScope(shield=True))
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Supervisor:
    """Runs the tiers until told to stop. One run per instance."""

    def __init__(
        self,
        tiers: Sequence[Tier],
        clock: Clock,
        limits: Limits | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self.tiers = tuple(tiers)
        self._clock = clock
        self._limits = limits or Limits()
        self._notifier = notifier or Notifier(None)
        self._started: list[tuple[Tier, list[_Child]]] = []
        self._all_started = False
        self._ending = asyncio.Event()
        self._hurried = asyncio.Event()
        self._error: Exception | None = None

    @property
    def services(self) -> tuple[Service, ...]:
        """All services, in the order of their start."""
        return tuple(service for tier in self.tiers for service in tier.services)

    @property
    def ready(self) -> bool:
        """All are started, and READY is said; none is to end."""
        return self._all_started and not self.draining

    @property
    def draining(self) -> bool:
        return self._ending.is_set()

    def hurry(self) -> None:
        """A second stop signal: skip the waiting (event loop's thread only)."""
        self._hurried.set()
        for service in self.services:
            service.hurry()

    async def run(self, stop: asyncio.Event) -> None:
        """Start, work until `stop` is set or a service fails, drain, end; raise what failed."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._heed, stop)
            group.start_soon(self._watch)
            try:
                await self._start(group)
                await self._ending.wait()
                await self._end()
            except asyncio.CancelledError:
                await self._end_at_once()
                raise
            group.cancel_scope.cancel()
        if self._error is not None:
            raise self._error

    async def _start(self, group: TaskGroup) -> None:
        for tier in self.tiers:
            if self._ending.is_set():
                return
            children = [_Child(service) for service in tier.services]
            self._started.append((tier, children))
            for child in children:
                group.start_soon(self._tend, child)
            for child in children:
                await child.ready.wait()
        if not self._ending.is_set():
            emit("process.ready", services=len(self.services))
            self._all_started = True
            self._notifier.ready()

    async def _tend(self, child: _Child) -> None:
        """One service from its start to its end."""
        try:
            await self._work(child)
        except Exception as error:
            self._fail_of(child, error)
        except SystemExit as error:
            name = child.service.name
            self._fail_of(child, ServiceFailed(f"service {name!r} called sys.exit({error.code!r})"))
        finally:
            child.done.set()

    async def _work(self, child: _Child) -> None:
        with child.scope:
            await child.service.run(child.ready.set)
        if not child.scope.cancel_called and not self.draining:
            raise ServiceFailed(f"service {child.service.name!r} ended by itself")

    def _fail_of(self, child: _Child, error: Exception) -> None:
        emit("service.failed", service=child.service.name, error=error)
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._begin_ending()

    def _begin_ending(self) -> None:
        self._ending.set()
        for child in self._children():
            child.ready.set()

    def _children(self) -> Iterator[_Child]:
        return (child for _, children in self._started for child in children)

    async def _heed(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._begin_ending()

    # ---- the end ---------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Right to left. May be called again after it was cancelled: it goes on where it was."""
        self._notifier.stopping("draining")
        emit("process.draining", error=self._error)
        while self._started:
            tier, children = self._started[-1]
            await self._drain(tier, children)
            for child in children:
                child.scope.cancel()
            for child in children:
                if not await wait(self._clock, child.done, self._limits.grace):
                    emit("service.stuck", service=child.service.name)
            self._started.pop()

    async def _end_at_once(self) -> None:
        """Whoever runs us was cancelled: hurry, but do not leave work half-done."""
        self._begin_ending()
        self.hurry()
        with anyio.CancelScope(shield=True):
            await self._end()

    async def _drain(self, tier: Tier, children: list[_Child]) -> None:
        """All services of a tier at once, within the limit."""
        emit("tier.draining", reason=tier.reason, services=[c.service.name for c in children])
        async with anyio.create_task_group() as limited:
            limited.start_soon(self._limit, limited.cancel_scope)
            async with anyio.create_task_group() as drains:
                for child in children:
                    drains.start_soon(self._drain_one, child)
            limited.cancel_scope.cancel()

    async def _drain_one(self, child: _Child) -> None:
        if child.done.is_set():
            return
        try:
            await child.service.drain()
        except Exception as error:
            self._fail_of(child, error)

    async def _limit(self, scope: anyio.CancelScope) -> None:
        """Cut a drain short: at its limit, or soon after somebody is in a hurry."""
        if await wait(self._clock, self._hurried, self._limits.drain):
            await self._clock.sleep(self._limits.grace)
        scope.cancel()

    # ---- the watch -------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Look at the loops; feed the watchdog, or end the process for one that stands still."""
        while True:
            asked = self._clock.monotonic()
            await self._clock.sleep(self._limits.look)
            now = self._clock.monotonic()
            if self._ending.is_set():
                self._notifier.extend_timeout(self._limits.look * 2 + self._limits.grace)
            elif now - asked > self._limits.look + self._limits.stall / 2:
                emit("process.overslept", seconds=now - asked)  # all stood still: nobody's fault
            elif stalled := self._stalled(now):
                names, limit = ", ".join(stalled), self._limits.stall
                self._fail(ServiceFailed(f"no progress for {limit:g} s: {names}"))
                emit("service.stalled", services=stalled, seconds=limit)
                continue
            self._notifier.watchdog()

    def _stalled(self, now: float) -> list[str]:
        return [
            child.service.name
            for child in self._children()
            if not child.done.is_set() and child.service.stalled(now, self._limits.stall)
        ]
