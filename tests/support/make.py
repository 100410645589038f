"""What the tests of the lifecycle are made with: one daemon whose verbs are separate calls.

So a crash is a call not made, and a lost reply is a call made and its answer thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from taskengine.embedded import EmbeddedServers, Servers
from taskengine.errors import Away, StoreUnavailable
from taskengine.lifecycle.backstage import Engine
from taskengine.lifecycle.beats import Identity, Watch
from taskengine.lifecycle.claiming import Lanes, claim_all
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.dispatch import Dispatcher, Request
from taskengine.lifecycle.inflight import Flight
from taskengine.lifecycle.membership import Membership
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.store_databases import StoreDatabases
from taskengine.model.context import JobContext
from taskengine.model.execution import Claim, Delivery, Dispatched, Reservation
from taskengine.model.function_job import FunctionJob, job
from taskengine.model.job import JobHandle
from taskengine.model.outcome import Ending, Outcome
from taskengine.model.settlement import Settlement, Success, decide
from taskengine.services.heartbeat import Heartbeat
from taskengine.services.worker import Worker
from taskengine.store import definitions, executions, lookup
from taskengine.store.execution_rows import Moved, NewExecution
from taskengine.store.pool import Connection, Store
from tests.support.until import until

SUCCEEDED = Outcome(Ending.SUCCEEDED)
FAILED = Outcome(Ending.FAILED, reason="failed", error="ValueError: no", traceback="Traceback …")
DISCARDED = Outcome(Ending.DISCARDED, reason="discarded", error="no such employee")
SNOOZED = Outcome(Ending.SNOOZED, reason="not yet", delay=300.0)
RELEASED = Outcome(Ending.RELEASED, reason="shutdown")
CANCELLED = Outcome(Ending.CANCELLED, reason="asked to abort")
INTERRUPTED = Outcome(Ending.INTERRUPTED, reason="shutdown")
ORPHANED = Outcome(Ending.ORPHANED, reason="worker_died", error="Orphaned(worker_died)")

AnyJob = FunctionJob[..., Any]


async def _nothing(ctx: Any) -> None:
    """A body that only succeeds."""


def a_job(name: str = "work", body: Callable[..., Any] = _nothing, **settings: Any) -> AnyJob:
    """A job with this body and these settings."""
    return job(name, **settings)(body)


class Hands:
    """One daemon, done by hand. `know` its jobs, `join`, then call verb by verb."""

    def __init__(self, parts: Parts, name: str = "hands") -> None:
        self.parts = parts
        self.identity = Identity(name)
        self.databases = databases = StoreDatabases(parts)
        self.crew = Crew(
            parts, self.identity, lambda flights: Engine(parts, flights, databases, name)
        )
        self.token = parts.draw_token()
        self.membership = Membership(parts, self.identity, self.token)
        self.watch = Watch(parts.config.heartbeat.lease, parts.config.heartbeat.beat)
        self.heartbeat = Heartbeat(parts, self.crew, self.membership, self.watch, lambda: "{}")
        self.dispatcher = Dispatcher(parts)

    @property
    def worker_id(self) -> int:
        return self.identity.worker_id

    async def know(self, *jobs: JobHandle) -> None:
        """Jobs that this process knows, with their definitions."""
        for each in jobs:
            self.parts.registry.add(each)
        self.crew.acquirer.jobs = tuple(self.parts.registry.names)
        async with self.parts.store.connection() as c:
            await definitions.register(c, [(each.name, each.settings) for each in jobs])

    async def join(self) -> Hands:
        await self.membership.join()
        return self

    def die(self) -> None:
        """As SIGKILL does it: the lock goes, its file and the row stay."""
        lock = self.membership._lock
        if lock is not None and lock._file is not None:
            lock._file.close()
            lock._file = None

    # ---- the verbs ---------------------------------------------------------------------------

    async def dispatch(self, name: str = "work", key: str | None = None, **more: Any) -> Dispatched:
        """Insert and deliver."""
        return await self.dispatcher.dispatch(Request(name, key=key, **more))

    async def insert(
        self, name: str = "work", key: str = "k", delay: float = 0.0, exclusive: str | None = None
    ) -> Delivery:
        """The first half of a dispatch: the row, and no message."""
        row = NewExecution(name, key, None, None, "{}", None, delay, False, None, None, exclusive)
        async with self.parts.store.connection() as c:
            made = await executions.insert(c, [row], self.parts.queues.names, 15.0)
        return Delivery(made[0].id, made[0].queue, made[0].score, made[0].due)

    async def reserve(self, n: int = 100) -> list[Reservation]:
        limits = [(queue, n) for queue in self.parts.queues.names]
        return await self.crew.acquirer.reserve(limits, n)

    async def claim(
        self,
        *ids: int,
        token: int | None = None,
        worker: int | None = None,
        jobs: Sequence[str] | None = None,
    ) -> list[Claim]:
        """The claiming statements alone, with room in the lanes."""
        known = self.parts.registry.names if jobs is None else jobs
        by, under = worker or self.worker_id, token or self.parts.draw_token()
        async with self.parts.store.connection() as c:
            return (await claim_all(c, sorted(ids), by, under, known, Lanes(99, 99))).claims

    async def ack(self, *claims: Claim) -> None:
        await self.crew.acquirer.ack(claims)

    async def running(self, name: str = "work", key: str | None = None, **columns: Any) -> Claim:
        """Dispatched (its row changed so), reserved, claimed, acknowledged: body not begun."""
        sent = await self.dispatch(name, key)
        if columns:
            await self.change(sent.execution_id, **columns)
        return await self.take(sent.execution_id)

    async def take(self, execution_id: int) -> Claim:
        """Reserve, claim and acknowledge this one."""
        await self.reserve()
        claims = await self.claim(execution_id)
        await self.ack(*claims)
        return claims[0]

    async def take_again(self, execution_id: int) -> Claim:
        """Claim what is pending once more, by its id alone."""
        (claim,) = await self.claim(execution_id)
        return claim

    async def settle(self, claim: Claim, outcome: Outcome = SUCCEEDED) -> list[Moved]:
        """Decide and write, without the delivery; a success says nothing of what moved."""
        settlement = decide(claim, outcome, self.parts.rng)
        async with self.parts.store.connection() as c:
            if isinstance(settlement, Success):
                await executions.succeed(c, [settlement])
                return []
            return await self._settle(c, settlement)

    async def _settle(self, c: Any, settlement: Settlement) -> list[Moved]:
        notices = self.parts.notice_queue
        return await executions.settle(c, [settlement], self.identity.name, notices, 15.0)

    async def deliver(self, moved: Sequence[Moved]) -> None:
        await deliver(self.parts, [d for m in moved if (d := m.delivery) is not None])

    async def beat(self) -> None:
        """One beat without its thread, and all that follows from it."""
        async with self.parts.store.connection() as c:
            beat = await self.heartbeat.pulse.beat(c)
        self.heartbeat.heard(beat)
        while self.heartbeat._tasks:
            await asyncio.gather(*self.heartbeat._tasks)

    def flight(self, claim: Claim) -> Flight:
        """The claim as this process knows it, its body not begun."""
        now = self.parts.clock.monotonic()
        return Flight(claim, JobContext(claim, self.crew.backstage), now)

    def fly(self, claim: Claim) -> Flight:
        """Begin the claim's body, as the worker does."""
        flight = self.flight(claim)
        self.crew.pilot.start(self.parts.registry[claim.job], flight)
        return flight

    @asynccontextmanager
    async def settling(self) -> AsyncIterator[None]:
        """While this lasts, what ends is settled; at its end all of it is."""
        task = asyncio.create_task(self.crew.settler.run())
        flushed = None
        try:
            yield
            flushed = asyncio.create_task(self.crew.settler.flush())
            await asyncio.wait([task, flushed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if flushed is not None:
                await _end(flushed)
            await _end(task)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[Worker]:
        """The worker service, from its start to its drain."""
        worker = Worker(self.crew)
        task = asyncio.create_task(worker.run(lambda: None))
        try:
            yield worker
            await worker.drain()
        finally:
            await _end(task)

    async def run(
        self, name: str = "work", key: str | None = None, **claim: Any
    ) -> Mapping[str, Any]:
        """Its row after one run of its body, begun and settled; `claim`: what its claim says."""
        taken = (await self.running(name, key))._replace(**claim)
        async with self.settling():
            flight = self.fly(taken)
            await until(lambda: flight.ended)
        return await self.row(taken.id)

    # ---- looking and changing ----------------------------------------------------------------

    async def sql(self, statement: str, *args: object) -> list[Mapping[str, Any]]:
        async with self.parts.store.connection() as c:
            return [dict(row) for row in await c.fetch(statement, *args)]

    async def row(self, execution_id: int) -> Mapping[str, Any]:
        return (await self.sql("select * from task_executions where id = $1", execution_id))[0]

    async def state(self, execution_id: int) -> str:
        return str((await self.row(execution_id))["state"])

    async def history(self, execution_id: int) -> list[str]:
        """The moves of its history, oldest first."""
        async with self.parts.store.connection() as c:
            return [each.move for each in await lookup.attempts(c, execution_id)]

    async def change(self, execution_id: int, **columns: Any) -> None:
        """Make the row look so; `now() - interval '1 h'` may be given as `sql:` text."""
        for name, value in columns.items():
            if isinstance(value, str) and value.startswith("sql:"):
                text = f"update task_executions set {name} = {value[4:]} where id = $1"
                await self.sql(text, execution_id)
            else:
                text = f"update task_executions set {name} = $2 where id = $1"
                await self.sql(text, execution_id, value)

    async def make_due(self, execution_id: int) -> None:
        """Its time has come."""
        await self.change(execution_id, run_at="sql:now() - interval '1 s'")

    async def at(self, execution_id: int) -> str | None:
        """Where its message is: `queue`, `processing`, `delayed`, several of them, or nowhere."""
        keys, names = self.parts.keys, self.parts.queues.names
        kinds = {"queue": keys.queue, "processing": keys.processing, "delayed": keys.delayed}
        found = [
            kind
            for kind, key in kinds.items()
            for name in names
            if await self.redis("ZSCORE", key(name), execution_id) is not None
        ]
        return "+".join(found) or None

    async def redis(self, *words: Any) -> Any:
        return await self.parts.client.command(*words)

    async def age_reservations(self, queue: str = "default") -> None:
        """What is reserved there was reserved long ago."""
        key = self.parts.keys.processing(queue)
        for member in await self.redis("ZRANGE", key, 0, -1):
            await self.redis("ZADD", key, 1, member)

    async def silence(self, worker_id: int) -> None:
        """This daemon has watched the other one for a whole lease, and its counter stood still."""
        beat = (await self.sql("select beat from task_workers where id = $1", worker_id))[0]["beat"]
        for turn in range(int(self.watch.lease / self.watch.beat) + 2):
            self.watch.observe(turn * self.watch.beat, [(worker_id, beat)])


@dataclass(frozen=True)
class Spare:
    """Servers that a test may stop, restart and break."""

    embedded: EmbeddedServers
    servers: Servers


class Told(list[tuple[str, dict[str, Any]]]):
    """The events of a test."""

    def of(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self if name == event]

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        self.append((event, dict(fields)))


def lose_first_reply(monkeypatch: pytest.MonkeyPatch, store: Store, *, after: int = 0) -> list[str]:
    """What is next asked of Postgres (`after`: so many answers later) is done, committed, and its
    answer lost. The uses until now."""
    real, uses = store.connection, list[str]()

    @asynccontextmanager
    async def connection() -> AsyncIterator[Connection]:
        async with real() as c:
            yield c
        uses.append("done")
        if len(uses) == after + 1:
            raise StoreUnavailable("the connection broke before the answer came")

    monkeypatch.setattr(store, "connection", connection)
    return uses


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel the task and wait for its end; its own failure is raised."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def settled_by(hands: Hands, name: str) -> None:
    """Until no execution of the job is unfinished."""

    async def done() -> bool:
        with suppress(Away):
            rows = await hands.sql(
                "select from task_executions where job = $1 and finished_at is null", name
            )
            return not rows
        return False

    await until(done)
