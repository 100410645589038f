"""The scheduler's tick: at the start of each minute (each second where a schedule has seconds).

Guarantees: time is the database's, whatever the clocks of the daemons say; every fire time of an
enabled definition is fired once by one of the daemons that know its job, or is on record as missed;
the Redis lock only spares work: what is still due after 5 s is fired with or without it; one broken
definition, or one broken hook, never stops the others. While this daemon drains it fires nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from taskengine.broker.lock import Lock
from taskengine.errors import BrokerUnavailable, StoreUnavailable
from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.definitions import judge
from taskengine.lifecycle.fire import fire
from taskengine.lifecycle.fire_keys import Hooks
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.slots import Slots, plan_slots
from taskengine.model.definition import Definition
from taskengine.model.surroundings import StoreInfo
from taskengine.runtime.service import Periodic
from taskengine.store import definitions, engine
from taskengine.store import stores as all_stores
from taskengine.store.pool import Connection
from taskengine.telemetry.events import emit

_MINUTE, _SECOND = 60.0, 1.0
_LOCK_SECONDS = 10.0
_UNLOCKED = timedelta(seconds=5)  # due for so long: fired without the lock
_AHEAD = timedelta(minutes=1)
_KEEP_UP = timedelta(seconds=30)  # fired_until of an idle definition is moved when older
_RETRY = 1.0
_MARGIN = 0.002  # wake just after the boundary: before it there is nothing to do


class _Work(NamedTuple):
    """A definition with something due since `first`."""

    definition: Definition
    slots: Slots
    first: datetime


class Scheduler(Periodic):
    """Fires what is due. `now` replaces the database's clock, for tests that travel."""

    name = "scheduler"

    def __init__(
        self, parts: Parts, identity: Identity, now: Callable[[], datetime] | None = None
    ) -> None:
        super().__init__(parts.clock, _MINUTE)
        self._parts = parts
        self._identity = identity
        self._now = now
        self._hooks = Hooks()
        token = str(parts.draw_token())
        self._lock = Lock(parts.client, parts.keys.scheduler_lock, token, _LOCK_SECONDS)
        self._ahead = _Lasting("schedule.ahead")
        self._unknown = _Lasting("schedule.nobody_knows", patience=60.0)
        self._seen: tuple[datetime, float] | None = None  # the database's now, and ours then
        self._step = _MINUTE
        self._retry: float | None = None

    async def tick(self) -> bool:
        """Fire what is due; whether a window was too large for one turn."""
        self._retry = None
        if self._identity.draining:
            return False
        async with self._parts.store.connection() as c:
            now = await self._database_now(c)
            found = await self._usable(c, now)
            stores = await _stores_for(c, found)
            due, idle = self._planned(found, stores, now)
            if idle:
                await definitions.keep_up(c, idle, now)
        more = await self._fire_due(due, now) if due else False
        self.last_findings = {**self.last_findings, "scheduled": len(found), "due": len(due)}
        return more

    def pause(self) -> float:
        """Until the next minute (or second) begins on the database's clock, sooner for a retry."""
        if self._seen is None:
            return _RETRY
        moment, at = self._seen
        now = moment.timestamp() + (self.clock.monotonic() - at)
        boundary = self._step - now % self._step
        return _MARGIN + min(boundary, self._retry if self._retry is not None else boundary)

    # ---- what there is to do -----------------------------------------------------------------

    async def _database_now(self, c: Connection) -> datetime:
        before = self.clock.monotonic()
        now = self._now() if self._now else await engine.now(c)
        self._seen = (now, (before + self.clock.monotonic()) / 2)
        return now

    async def _usable(self, c: Connection, now: datetime) -> list[Definition]:
        """The scheduled definitions that this daemon knows and can fire."""
        registry = self._parts.registry
        mine = [each for each in await definitions.scheduled(c) if registry.get(each.name)]
        unknown = await definitions.unknown(c, registry.names)
        self._unknown.update({name: {} for name in unknown}, self.clock.monotonic())
        good = await judge(c, self._parts, mine)
        ahead = {each.name: each for each in good if each.fired_until - now > _AHEAD}
        self._ahead.update(
            {name: {"fired_until": each.fired_until} for name, each in ahead.items()},
            self.clock.monotonic(),
        )
        self.found(broken=len(mine) - len(good), ahead=len(ahead), unknown=len(unknown))
        return [each for each in good if each.name not in ahead]

    def _planned(
        self, found: Sequence[Definition], stores: Sequence[StoreInfo], now: datetime
    ) -> tuple[list[_Work], list[Definition]]:
        """What is due, and the idle ones whose window has grown."""
        due, idle = [], []
        seconds = any(each.settings.schedule_seconds for each in found)
        self._step = _SECOND if seconds else _MINUTE
        for definition in found:
            try:
                slots = plan_slots(definition, stores, now)
            except Exception as error:
                emit("schedule.failed", task=definition.name, error=error)
                continue
            if slots.first is not None:
                due.append(_Work(definition, slots, slots.first))
            elif now - definition.fired_until > _KEEP_UP:
                idle.append(definition)
        return due, idle

    # ---- doing it ----------------------------------------------------------------------------

    async def _fire_due(self, due: Sequence[_Work], now: datetime) -> bool:
        """Under the lock everything; without it what has been due for 5 s."""
        held = await self._hold()
        ready = [work for work in due if held or now - work.first >= _UNLOCKED]
        if len(ready) < len(due):
            self._retry = _RETRY
        try:
            more = [await self._fire_one(work, now) for work in ready]
        finally:
            if held:
                await self._release()
        return any(more)

    async def _fire_one(self, work: _Work, now: datetime) -> bool:
        """One definition; whether its window was too large for one turn."""
        self.progress()
        try:
            fired = await fire(self._parts, self._hooks, work.definition, work.slots)
        except StoreUnavailable:
            raise
        except Exception as error:
            emit("schedule.failed", task=work.definition.name, error=error)
            return False
        if not fired.moved and not fired.hook_errors:
            self._retry = _RETRY
        return fired.moved and work.slots.fired_until < now

    async def _hold(self) -> bool:
        if not self._parts.config.redis.enabled:
            return True  # nobody is ever spared anything: the rows arbitrate
        try:
            return await self._lock.hold()
        except BrokerUnavailable:
            return False

    async def _release(self) -> None:
        """Let the others at once: it may be that they know what we do not."""
        try:
            await self._lock.release()
        except BrokerUnavailable:
            return  # it ends by itself


class _Lasting:
    """A condition that is told once when it has lasted for `patience` seconds, then every hour."""

    def __init__(self, event: str, patience: float = 0.0, every: float = 3600.0) -> None:
        self._event = event
        self._patience = patience
        self._every = every
        self._next: dict[str, float] = {}

    def update(self, found: Mapping[str, Mapping[str, Any]], now: float) -> None:
        """What is so now, by task; `now` is monotonic."""
        self._next = {task: self._next.get(task, now + self._patience) for task in found}
        for task, fields in found.items():
            if now >= self._next[task]:
                self._next[task] = now + self._every
                emit(self._event, task=task, **fields)


async def _stores_for(c: Connection, found: Sequence[Definition]) -> list[StoreInfo]:
    """The active stores, where any definition is for them."""
    if not any(each.settings.scope == "per_store" for each in found):
        return []
    return await all_stores.active(c)
