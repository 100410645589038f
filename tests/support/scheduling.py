"""A scheduler in a made-up time: definitions, stores, turns, and what came of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from taskengine.lifecycle.beats import Identity
from taskengine.lifecycle.parts import Parts
from taskengine.model.function_job import FunctionJob, job
from taskengine.services.scheduler import Scheduler
from taskengine.store import definitions, misses, stores
from taskengine.store.misses import Miss
from taskengine.telemetry.events import subscribe
from tests.support.fake_clock import FakeClock

NOON = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


def at(hour: int, minute: int = 0, second: int = 0, *, days: int = 0) -> datetime:
    """A moment of 2 November 2026, or of `days` later."""
    return NOON.replace(hour=hour, minute=minute, second=second) + timedelta(days=days)


def scheduled(name: str, schedule: str = "* * * * *", **settings: Any) -> FunctionJob[[], None]:
    """A job that does nothing, on a schedule."""

    @job(name, schedule=schedule, **settings)
    async def body(ctx: Any) -> None:
        """Nothing."""

    return body  # type: ignore[return-value]


class World:
    """One database and one made-up time, for one or more schedulers."""

    def __init__(self, parts: Parts, now: datetime = NOON) -> None:
        self.clock = FakeClock(now)
        self.parts = replace(parts, clock=self.clock)
        self.now = now
        self.identity = Identity("this one")
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.close: Callable[[], None] = subscribe(
            lambda name, fields: self.events.append((name, dict(fields)))
        )

    async def add(self, *jobs: FunctionJob[[], None]) -> None:
        """Jobs that this daemon knows, registered now."""
        for each in jobs:
            self.parts.registry.add(each)
        await self.register(*jobs)

    async def register(self, *jobs: FunctionJob[[], None]) -> None:
        async with self.parts.store.connection() as c:
            rows = [(each.name, each.settings) for each in jobs]
            await definitions.register(c, rows, self.now)

    async def open_stores(self, **zones: str) -> None:
        """`s1="America/New_York"`: a store and its zone."""
        async with self.parts.store.connection() as c:
            for type_num, zone in zones.items():
                await stores.add(c, type_num, type_num, zone, None)

    def scheduler(self, parts: Parts | None = None) -> Scheduler:
        return Scheduler(parts or self.parts, self.identity, now=lambda: self.now)

    async def turn(self, moment: datetime, scheduler: Scheduler | None = None) -> bool:
        """One tick at this moment."""
        self.now = moment
        return await (scheduler or self.scheduler()).tick()

    async def sql(self, statement: str, *args: object) -> Any:
        async with self.parts.store.connection() as c:
            return await c.fetch(statement, *args)

    async def keys(self, name: str | None = None) -> list[str]:
        rows = await self.sql(
            "select idempotency_key from task_executions where $1::text is null or job = $1"
            " order by 1",
            name,
        )
        return [row[0] for row in rows]

    async def fired_until(self, name: str) -> datetime:
        async with self.parts.store.connection() as c:
            found = await definitions.get(c, name)
        assert found is not None
        return found.fired_until

    async def misses(self, name: str | None = None) -> list[Miss]:
        """Oldest first."""
        async with self.parts.store.connection() as c:
            return (await misses.list_(c, name, 10_000))[::-1]

    async def end(self, state: str, name: str) -> None:
        """Let all executions of a job end in this state."""
        await self.sql(
            "update task_executions set state = $1, finished_at = now(), claim_token = null"
            " where job = $2",
            state,
            name,
        )

    def told(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]

    async def waiting(self, queue: str = "default") -> int:
        depth = await self.parts.client.command("ZCARD", self.parts.keys.queue(queue))
        return int(depth)
