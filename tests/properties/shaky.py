"""Stores that lose a reply, or are not reached, when they are told to; real ones otherwise."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import Enum
from typing import Any

from taskengine.broker.client import Client
from taskengine.broker.epoch import Epoch
from taskengine.broker.queue import Queues
from taskengine.errors import BrokerUnavailable, StoreUnavailable
from taskengine.lifecycle.parts import Memory, Parts
from taskengine.model.registry import Registry
from taskengine.runtime.clock import SystemClock
from taskengine.store.pool import Connection, Store


class Fault(Enum):
    """What happens to one call: it never arrives, or it is done and its answer is lost."""

    STORE_UNREACHED = "postgres not reached"
    STORE_REPLY = "postgres done, reply lost"
    REDIS_UNREACHED = "redis not reached"
    REDIS_REPLY = "redis done, reply lost"


class Faults:
    """The fault that a daemon is to meet next, after `skip` calls of that store went well."""

    def __init__(self) -> None:
        self._armed: Fault | None = None
        self._skip = 0

    def arm(self, fault: Fault | None, skip: int = 0) -> None:
        self._armed, self._skip = fault, skip

    def next(self, unreached: Fault, reply: Fault) -> Fault | None:
        """What happens to the call that begins now."""
        if self._armed not in (unreached, reply):
            return None
        if self._skip:
            self._skip -= 1
            return None
        fault, self._armed = self._armed, None
        return fault


class QuickClock(SystemClock):
    """Waits for nothing."""

    __slots__ = ()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)


class ShakyStore(Store):
    """Another store's pool."""

    def __init__(self, real: Store, faults: Faults) -> None:
        super().__init__(real.settings, real._pool)
        self._faults = faults

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        fault = self._faults.next(Fault.STORE_UNREACHED, Fault.STORE_REPLY)
        if fault is Fault.STORE_UNREACHED:
            raise StoreUnavailable(fault.value)
        async with super().connection() as c:
            yield c
        if fault is not None:
            raise StoreUnavailable(fault.value)


class ShakyClient(Client):
    """Another client's connections."""

    def __init__(self, real: Client, faults: Faults) -> None:
        super().__init__(real.settings, real._clock)
        self._redis = real._redis
        self._faults = faults

    async def _guarded(self, run: Callable[[], Awaitable[Any]]) -> Any:
        fault = self._faults.next(Fault.REDIS_UNREACHED, Fault.REDIS_REPLY)
        if fault is Fault.REDIS_UNREACHED:
            raise BrokerUnavailable(fault.value)
        answer = await super()._guarded(run)
        if fault is not None:
            raise BrokerUnavailable(fault.value)
        return answer


def shaky(parts: Parts, faults: Faults, registry: Registry, seed: int) -> Parts:
    """The parts of one more daemon on the same stores: what it remembers and knows is its own."""
    client = ShakyClient(parts.client, faults)
    return replace(
        parts,
        store=ShakyStore(parts.store, faults),
        client=client,
        queues=Queues(client, parts.keys, parts.queues.names),
        epoch=Epoch(client, parts.keys),
        registry=registry,
        clock=QuickClock(),
        rng=random.Random(seed),
        memory=Memory(),
    )
