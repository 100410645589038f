"""The one home of redis-py: a client for commands, its scripts, its breaker.

Guarantees: explicit time-outs and no hidden retries; whatever says "not now" (refused, timed out,
READONLY, OOM, LOADING, MISCONF …) is `BrokerUnavailable`; after one such answer the breaker spares
callers the time-out; a script that Redis has forgotten is loaded again and runs once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from typing import Any

from redis import exceptions as rx
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from taskengine.config import Redis as RedisSettings
from taskengine.errors import BrokerUnavailable
from taskengine.runtime.clock import Clock
from taskengine.telemetry.events import emit

_CONNECTIONS = 8
_NOT_NOW = (
    "OOM",
    "READONLY",
    "LOADING",
    "MISCONF",
    "MASTERDOWN",
    "NOREPLICAS",
    "CLUSTERDOWN",
    "NOPERM",
    "ACL failure in script",  # the same, as a script of ours is told it
    "BUSY",
    "WRONGTYPE",  # somebody has written over a key of ours: the rows are safe, the queue is not
)


# uvloop says RuntimeError of a connection that was reset before its first write
BROKEN = (rx.RedisError, OSError, TimeoutError, RuntimeError)


def _read_scripts() -> dict[str, tuple[str, str]]:
    folder = files("taskengine.broker") / "lua"
    texts = {f.name.removesuffix(".lua"): f.read_text("utf-8") for f in folder.iterdir()}
    return {name: (text, hashlib.sha1(text.encode()).hexdigest()) for name, text in texts.items()}  # noqa: S324


SCRIPTS = _read_scripts()


def connect(settings: RedisSettings, *, timeout: float | None, connections: int) -> Redis:
    """A client whose every behaviour is said: RESP2, our time-outs, no retries."""
    pool = BlockingConnectionPool.from_url(
        settings.url.get_secret_value(),
        protocol=2,
        legacy_responses=True,
        max_connections=connections,
        timeout=settings.timeout,
        socket_timeout=timeout,
        socket_connect_timeout=settings.timeout,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
    )
    return Redis.from_pool(pool)


class Client:
    """Commands and scripts behind a breaker. `on_back` is called when Redis answers again,
    `on_wrong_type` when a key of ours holds something else."""

    def __init__(self, settings: RedisSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._redis = connect(settings, timeout=settings.timeout, connections=_CONNECTIONS)
        self._probe = ("ZADD", f"{settings.prefix}:probe", "XX", 0, 0)
        self._open_until = 0.0
        self.away_since: float | None = None
        self._on_back: list[Callable[[], None]] = []
        self._on_wrong_type: list[Callable[[], None]] = []

    def on_back(self, callback: Callable[[], None]) -> None:
        """Have `callback()` called each time Redis is back after being away."""
        self._on_back.append(callback)

    def on_wrong_type(self, callback: Callable[[], None]) -> None:
        """Have `callback()` called each time a key turns out to be of a wrong type."""
        self._on_wrong_type.append(callback)

    async def script(self, name: str, keys: Sequence[str], args: Sequence[Any] = ()) -> Any:
        """Run `lua/<name>.lua`."""
        text, sha = SCRIPTS[name]

        async def run() -> Any:
            try:
                return await self._execute("EVALSHA", sha, len(keys), *keys, *args)
            except rx.NoScriptError:
                return await self._execute("EVAL", text, len(keys), *keys, *args)

        return await self._guarded(run)

    async def command(self, *words: Any) -> Any:
        """One command."""
        return await self._guarded(lambda: self._execute(*words))

    async def commands(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Several commands in one round trip, not in a transaction."""

        async def run() -> list[Any]:
            pipeline = self._redis.pipeline(transaction=False)
            for words in commands:
                pipeline.execute_command(*words)
            return await pipeline.execute()

        answer: list[Any] = await self._guarded(run)
        return answer

    async def probe(self) -> None:
        """Raise `BrokerUnavailable` unless Redis takes writes now. (`XX`: nothing is written.)"""
        await self.command(*self._probe)

    async def _execute(self, *words: Any) -> Any:
        return await self._redis.execute_command(*words)  # type: ignore[no-untyped-call]

    async def _guarded(self, run: Callable[[], Awaitable[Any]]) -> Any:
        """Run it behind the breaker, its errors translated."""
        if not self.settings.enabled:
            raise BrokerUnavailable("Redis is switched off ([redis] enabled = false)")
        if self._clock.monotonic() < self._open_until:
            raise BrokerUnavailable("Redis was away a moment ago")
        try:
            answer = await run()
        except BROKEN as error:
            if not _is_not_now(error):
                raise
            self._trip(error)
            raise BrokerUnavailable(
                f"Redis cannot serve: {type(error).__name__}: {error}"
            ) from error
        if self.away_since is not None:
            await self._look_again()
        return answer

    async def _look_again(self) -> None:
        """It answers; it is back when it takes writes, too: one that is read-only or full answers
        reads all the same."""
        try:
            await self._execute(*self._probe)
        except BROKEN as error:
            self._trip(error)
            return
        self._restore()

    def _trip(self, error: Exception) -> None:
        now = self._clock.monotonic()
        if self.away_since is None:
            self.away_since = now
            emit("broker.away", error=error)
        if _says(
            error, "WRONGTYPE"
        ):  # it answers at once: the breaker would only keep the healer out
            for callback in self._on_wrong_type:
                callback()
        else:
            self._open_until = now + self.settings.breaker

    def _restore(self) -> None:
        if self.away_since is None:
            return
        self.away_since = None
        emit("broker.back")
        for callback in self._on_back:
            callback()

    async def close(self) -> None:
        await self._redis.aclose()


def _is_not_now(error: Exception) -> bool:
    if isinstance(error, RuntimeError):
        return "closed" in str(error)
    if not isinstance(error, rx.ResponseError):
        return True
    return _says(error, *_NOT_NOW)


def _says(error: Exception, *words: str) -> bool:
    """redis-py cuts the codes that it knows off the message and keeps them apart."""
    said = f"{getattr(error, 'status_code', '')} {error}"
    return any(word in said for word in words)
