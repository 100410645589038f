"""Whose Redis this is, and whether it remembers what it was told.

A missing `epoch`, an older generation or another `run_id` means that Redis has lost or changed its
memory: deliveries are written anew (see `lifecycle/rebuild.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taskengine.broker.client import Client
from taskengine.broker.keys import Keys


class Seen(NamedTuple):
    """What Redis says; empty strings and -1 where it says nothing."""

    identity: str
    generation: int
    sealed_run_id: str
    rebuild_token: str
    run_id: str

    def is_good(self, identity: str, generation: int) -> bool:
        """Whether its memory is the one that `generation` was rebuilt into."""
        return (
            self.identity == identity
            and self.generation >= generation
            and self.sealed_run_id == self.run_id
        )


class Epoch:
    """Reads, begins and seals a rebuild."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def read(self) -> Seen:
        answer = await self._client.script("epoch_read", [self._keys.epoch])
        identity, generation, sealed, token, run_id = (a.decode() for a in answer)
        return Seen(identity, int(generation or -1), sealed, token, run_id)

    async def begin(self, token: str, queues: Sequence[str]) -> str:
        """Write our token, forget reservations; the server's `run_id`."""
        keys = [self._keys.epoch, *(self._keys.processing(q) for q in queues)]
        run_id: bytes = await self._client.script("epoch_begin", keys, [token])
        return run_id.decode()

    async def seal(self, token: str, run_id: str, identity: str, generation: int) -> bool:
        """Whether the rebuild holds; False: another began, or the server changed. Start over."""
        args = [token, run_id, identity, generation, self._keys.wake]
        return bool(await self._client.script("epoch_seal", [self._keys.epoch], args))
