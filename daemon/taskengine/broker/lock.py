"""The scheduler's lock: it spares work and guarantees nothing (the unique key does)."""

from __future__ import annotations

from taskengine.broker.client import Client


class Lock:
    """A lock held by token, renewed and released by token only."""

    def __init__(self, client: Client, key: str, token: str, seconds: float) -> None:
        self._client = client
        self._key = key
        self._token = token
        self._milliseconds = int(seconds * 1000)

    async def hold(self) -> bool:
        """Take it or renew it; whether it is ours."""
        args = [self._token, self._milliseconds]
        return bool(await self._client.script("lock_hold", [self._key], args))

    async def release(self) -> None:
        await self._client.script("lock_release", [self._key], [self._token])
