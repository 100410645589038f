"""The frozen bundle that everything above the stores receives, and what Redis is known to hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from taskengine.broker.client import Client
from taskengine.broker.epoch import Epoch
from taskengine.broker.keys import Keys
from taskengine.broker.queue import Queues
from taskengine.config import Config
from taskengine.model.registry import Registry
from taskengine.runtime.clock import Clock
from taskengine.store.pool import Store


@dataclass(slots=True)
class Memory:
    """Which database this is, and the generation that its Redis was rebuilt for.

    `suspect()` is called by whoever saw a bad epoch, a key of a wrong type or a Redis that came
    back; the divergence loop has itself nudged by it.
    """

    identity: str = ""
    generation: int = -1
    on_suspicion: list[Callable[[], None]] = field(default_factory=list)

    def suspect(self) -> None:
        for callback in self.on_suspicion:
            callback()


@dataclass(frozen=True, slots=True)
class Parts:
    """Store, broker, registry, clock, chance and configuration."""

    config: Config
    store: Store
    client: Client
    keys: Keys
    queues: Queues
    epoch: Epoch
    registry: Registry
    clock: Clock
    rng: random.Random
    memory: Memory

    @property
    def notice_queue(self) -> str:
        return self.config.notice_queue

    def draw_token(self) -> int:
        """A claim's or a lease's token: 63 random bits, never zero."""
        return self.rng.getrandbits(63) or 1


async def open_parts(
    config: Config, registry: Registry, clock: Clock, rng: random.Random, application: str
) -> Parts:
    """Open both stores (either may be away now) and bundle them."""
    keys = Keys(config.redis.prefix)
    client = Client(config.redis, clock)
    memory = Memory()
    client.on_back(memory.suspect)
    client.on_wrong_type(memory.suspect)
    return Parts(
        config=config,
        store=await Store.open(config.postgres, application),
        client=client,
        keys=keys,
        queues=Queues(client, keys, config.engine.queues),
        epoch=Epoch(client, keys),
        registry=registry,
        clock=clock,
        rng=rng,
        memory=memory,
    )


async def close_parts(parts: Parts) -> None:
    """Close both stores, within bounds."""
    await parts.store.close()
    await parts.client.close()
