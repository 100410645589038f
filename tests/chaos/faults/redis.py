"""Redis forgets, refuses, restarts, remembers an older day, holds what is not ours."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from redis.asyncio import Redis

from tests.chaos.faults.base import Fault

_QUEUES = ("payroll", "high", "default", "low")
_KEYS = (
    *(f"taskengine:{kind}:{q}" for kind in ("queue", "processing", "delayed") for q in _QUEUES),
    *("taskengine:epoch", "taskengine:scheduler:lock"),
)


class _OfRedis(Fault):
    group: ClassVar = "redis"
    seconds: ClassVar = (0.1, 0.5)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Redis]:
        """A direct connection."""
        client: Redis = Redis(unix_socket_path=str(self.cluster.servers.valkey.socket))
        try:
            yield client
        finally:
            await client.aclose()

    async def do(self, *words: Any) -> None:
        async with self.client() as client:
            await client.execute_command(*words)  # type: ignore[no-untyped-call]


class FlushAll(_OfRedis):
    kind: ClassVar = "flushall"

    async def begin(self) -> None:
        await self.do("FLUSHALL")


class KeyDeleted(_OfRedis):
    kind: ClassVar = "key-deleted"

    async def begin(self) -> None:
        self.about = self.rng.choice(_KEYS)
        await self.do("DEL", self.about)


class WrongType(_OfRedis):
    """Somebody has written over a key of ours; nobody mends it but by deleting it."""

    kind: ClassVar = "key-of-wrong-type"
    seconds: ClassVar = (3.0, 6.0)

    async def begin(self) -> None:
        self.about = self.rng.choice(_KEYS[:12])
        await self.do("SET", self.about, "not ours")

    async def end(self) -> None:
        async with self.client() as client:
            if await client.type(self.about) == b"string":
                await client.delete(self.about)


class Garbage(_OfRedis):
    """Members that are no executions, or none of ours."""

    kind: ClassVar = "garbage-members"

    async def begin(self) -> None:
        for kind in ("queue", "delayed", "processing"):
            key = f"taskengine:{kind}:{self.rng.choice(_QUEUES)}"
            await self.do("ZADD", key, 0, "not-an-id", 1, "999999999999", 2, "1", 3, "-5")


class Restart(_OfRedis):
    """Stopped in order; its keys are there again."""

    kind: ClassVar = "redis-restarted"
    seconds: ClassVar = (0.5, 4.0)

    async def begin(self) -> None:
        await asyncio.to_thread(self.cluster.servers.valkey.stop)

    async def end(self) -> None:
        await asyncio.to_thread(self.cluster.servers.valkey.start)


class RestartEmpty(_OfRedis):
    kind: ClassVar = "redis-restarted-empty"
    seconds: ClassVar = (0.5, 7.0)

    async def begin(self) -> None:
        await asyncio.to_thread(self.cluster.servers.valkey.wipe)

    async def end(self) -> None:
        await asyncio.to_thread(self.cluster.servers.valkey.start)


class Restored(_OfRedis):
    """A restart from an older file: what the last one of these, or the start, had kept."""

    kind: ClassVar = "redis-from-an-old-file"
    seconds: ClassVar = (0.5, 2.0)

    async def begin(self) -> None:
        valkey = self.cluster.servers.valkey
        await asyncio.to_thread(valkey.stop)
        old = self.cluster.folder / "old-redis"
        if old.exists():
            await asyncio.to_thread(_swap, valkey.data, old)

    async def end(self) -> None:
        await asyncio.to_thread(self.cluster.servers.valkey.start)


def _swap(data: Any, old: Any) -> None:
    """The older file's content in place of today's, which becomes the next one's older file."""
    aside = old.with_name("redis-of-today")
    shutil.copytree(data, aside)
    stat = data.stat()
    for each in data.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    shutil.copytree(old, data, dirs_exist_ok=True)
    for each in (data, *data.rglob("*")):
        shutil.chown(each, stat.st_uid, stat.st_gid)
    shutil.rmtree(old)
    aside.rename(old)


class Frozen(_OfRedis):
    """It hangs: connections stay open and nothing is answered."""

    kind: ClassVar = "redis-hangs"
    seconds: ClassVar = (2.0, 8.0)

    async def begin(self) -> None:
        await asyncio.to_thread(self.cluster.servers.valkey.freeze)

    async def end(self) -> None:
        await asyncio.to_thread(self.cluster.servers.valkey.thaw)


class ReadOnly(_OfRedis):
    """READONLY: it has become the replica of somebody who is not there."""

    kind: ClassVar = "redis-readonly"
    seconds: ClassVar = (2.0, 8.0)

    async def begin(self) -> None:
        await self.do("REPLICAOF", "127.0.0.1", "1")

    async def end(self) -> None:
        await self.do("REPLICAOF", "NO", "ONE")


class _Configured(_OfRedis):
    seconds: ClassVar = (2.0, 8.0)
    setting: ClassVar[str]
    bad: ClassVar[str]

    async def begin(self) -> None:
        await self.do("CONFIG", "SET", self.setting, self.bad)

    async def end(self) -> None:
        await self.do("CONFIG", "SET", self.setting, "0")


class Full(_Configured):
    """OOM."""

    kind: ClassVar = "redis-oom"
    setting: ClassVar = "maxmemory"
    bad: ClassVar = "1"


class NoReplicas(_Configured):
    """NOREPLICAS."""

    kind: ClassVar = "redis-noreplicas"
    setting: ClassVar = "min-replicas-to-write"
    bad: ClassVar = "1"


class ClientsKilled(_OfRedis):
    """All connections closed by the server, and its scripts forgotten."""

    kind: ClassVar = "redis-clients-killed"

    async def begin(self) -> None:
        await self.do("SCRIPT", "FLUSH")
        await self.do("CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal")
        await self.do("CLIENT", "KILL", "TYPE", "pubsub")


KINDS: tuple[type[Fault], ...] = (
    *(FlushAll, KeyDeleted, WrongType, Garbage, Restart, RestartEmpty, Restored),
    *(Frozen, ReadOnly, Full, NoReplicas, ClientsKilled),
)
