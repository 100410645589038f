"""The client: opens both stores, dispatches, asks.

async with TaskEngine.from_config("config.toml") as engine:
    sent = await engine.dispatch(send_paystub.call(employee_id=7), key="paystub:7:2026-11")
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from taskengine.config import Config
from taskengine.errors import ExecutionNotFound
from taskengine.insight import why
from taskengine.insight.why import Explanation
from taskengine.lifecycle.dispatch import Dispatcher, Request
from taskengine.lifecycle.operate import cancel, redrive
from taskengine.lifecycle.parts import Parts, close_parts, open_parts
from taskengine.model.execution import Attempt, Dispatched, Execution, State
from taskengine.model.job import Call
from taskengine.model.outcome import seconds_of
from taskengine.model.payload import JsonValue, encode
from taskengine.model.registry import Registry
from taskengine.runtime.clock import SystemClock
from taskengine.store import logs, lookup, stores
from taskengine.store.logs import Line

_FIRST_LOOK = 0.02
_LAST_LOOK = 1.0


class TaskEngine:
    """Dispatches and asks. One a process is enough: concurrent dispatches travel together."""

    def __init__(self, config: Config, registry: Registry | None = None) -> None:
        self._config = config
        self._registry = registry
        self._parts: Parts | None = None
        self._dispatcher: Dispatcher | None = None

    @classmethod
    def from_config(cls, path: str | Path | None = None) -> Self:
        """A client of the engine that this file configures. Raises `ConfigError`."""
        return cls(Config.load(Path(path) if path is not None else None))

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """A client over stores that are open already; they stay open."""
        engine = cls(parts.config, parts.registry)
        engine._parts = parts
        engine._dispatcher = Dispatcher(parts)
        return engine

    async def __aenter__(self) -> Self:
        if self._registry is None:
            self._registry = Registry.load(self._config.jobs.modules)
        self._parts = await open_parts(
            self._config, self._registry, SystemClock(), random.SystemRandom(), "taskengine-client"
        )
        self._dispatcher = Dispatcher(self._parts)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await close_parts(self.parts)

    @property
    def parts(self) -> Parts:
        if self._parts is None:
            raise RuntimeError("the engine is not open: use `async with`")
        return self._parts

    @property
    def dispatcher(self) -> Dispatcher:
        if self._dispatcher is None:
            raise RuntimeError("the engine is not open: use `async with`")
        return self._dispatcher

    # ---- dispatching -------------------------------------------------------------------------

    async def dispatch(
        self,
        call: Call | str,
        payload: Mapping[str, JsonValue] | None = None,
        *,
        key: str | None = None,
        delay: float | timedelta = 0.0,
        run_at: datetime | None = None,
        store: str | None = None,
        subject: str | None = None,
        exclusive_key: str | None = None,
    ) -> Dispatched:
        """One execution: a `.call(...)`, or a job's name with its payload.

        `delay` in seconds, or `run_at` (aware); `store` for a per-store job. A second dispatch of
        the same `key` finds the first one's execution and, if it is pending, delivers it again. Of
        those with the same `exclusive_key` (default: what the job computes) at most one runs at a
        time. Raises the errors of the specification's "Bad input", and `StoreUnavailable`.
        """
        request = self._request(call, payload, key, store, subject, run_at, delay, exclusive_key)
        return await self.dispatcher.dispatch(request)

    async def dispatch_many(
        self,
        calls: Sequence[Call],
        *,
        delay: float | timedelta = 0.0,
        run_at: datetime | None = None,
        exclusive_key: str | None = None,
    ) -> list[Dispatched]:
        """Many executions, a thousand a statement, in the order given; an `exclusive_key` is that of
        all of them: they run one after another."""
        requests = [
            self._request(call, None, None, None, None, run_at, delay, exclusive_key)
            for call in calls
        ]
        return await self.dispatcher.dispatch_many(requests)

    async def dispatch_stores(
        self,
        call: Call | str,
        payload: Mapping[str, JsonValue] | None = None,
        *,
        key: str | None = None,
        delay: float | timedelta = 0.0,
        run_at: datetime | None = None,
        exclusive_key: str | None = None,
    ) -> list[Dispatched]:
        """One execution for each active store; every key ends in `:<type_num>`, but for an
        `exclusive_key`: under it the stores run one after another."""
        async with self.parts.store.connection() as c:
            active = await stores.active(c)
        requests = [
            self._request(call, payload, key, each.type_num, None, run_at, delay, exclusive_key)
            for each in active
        ]
        return await self.dispatcher.dispatch_many(requests)

    def _request(
        self,
        call: Call | str,
        payload: Mapping[str, JsonValue] | None,
        key: str | None,
        store: str | None,
        subject: str | None,
        run_at: datetime | None,
        delay: float | timedelta,
        exclusive_key: str | None,
    ) -> Request:
        if run_at is not None and run_at.tzinfo is None:
            raise ValueError(f"run_at = {run_at!r} has no zone: give an aware datetime")
        name, text = (
            (call.job, call.payload) if isinstance(call, Call) else self._named(call, payload)
        )
        return Request(
            name,
            text,
            key,
            store,
            subject,
            run_at,
            seconds_of(delay),
            exclusive_key=exclusive_key,
        )

    def _named(self, name: str, payload: Mapping[str, JsonValue] | None) -> tuple[str, str]:
        """A payload by the job's name: checked by the job where this process knows it."""
        handle = self.parts.registry.get(name)
        values = dict(payload or {})
        return name, (handle.dump(values) if handle is not None else encode(values))

    # ---- asking ------------------------------------------------------------------------------

    async def get(self, execution_id: int) -> Execution:
        """Raises `ExecutionNotFound`."""
        async with self.parts.store.connection() as c:
            found = await lookup.get(c, execution_id)
        if found is None:
            raise ExecutionNotFound(execution_id)
        return found

    async def history(self, execution_id: int) -> list[Attempt]:
        """What did not succeed and what operators did, oldest first. Raises `ExecutionNotFound`."""
        await self.get(execution_id)
        async with self.parts.store.connection() as c:
            return await lookup.attempts(c, execution_id)

    async def logs(self, execution_id: int, limit: int = 1000) -> list[Line]:
        """The first `limit` lines of its own log, oldest first. Raises `ExecutionNotFound`."""
        await self.get(execution_id)
        async with self.parts.store.connection() as c:
            return await logs.of(c, execution_id, limit)

    async def why(self, execution_id: int) -> Explanation:
        """Why it has not run, is waiting, ran twice or failed. Raises `ExecutionNotFound`."""
        return why.explain(await why.read(self.parts, execution_id))

    async def wait(self, execution_id: int, timeout: float) -> Execution:
        """Wait until it has ended; `TimeoutError` after so many seconds. For tests and scripts."""
        look = _FIRST_LOOK
        async with asyncio.timeout(timeout):
            while not State((found := await self.get(execution_id)).state).terminal:
                await asyncio.sleep(look)
                look = min(_LAST_LOOK, look * 1.5)
        return found

    async def cancel(self, execution_id: int, *, by: str = "client", reason: str = "asked") -> str:
        """`cancelled`, `requested` (may still end as succeeded) or `already <state>`."""
        return (await cancel(self.parts, [execution_id], by, reason))[execution_id]

    async def redrive(
        self, execution_id: int, *, by: str = "client", from_start: bool = False
    ) -> Dispatched:
        """A failed or cancelled execution, again, at once.

        Raises `ExecutionNotFound`, `InvalidMove`, `ExecutionEmptied`.
        """
        delivered = await redrive(self.parts, execution_id, by, from_start=from_start)
        found = await self.get(execution_id)
        return Dispatched(found.id, False, found.state, delivered, found.key)
