"""The workloads: dispatching in three ways, draining, the time to a start, idling."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from taskengine.client import TaskEngine
from tests.bench.jobs import RECORD, noop, started
from tests.support.daemon import Daemon

_DRAIN = 20_000
_LOOK = 0.05
_LIMIT = 120.0


@dataclass(frozen=True)
class Bench:
    """A client, and how to start a daemon beside it."""

    engine: TaskEngine
    config: Path
    records: Path

    def daemon(self) -> Daemon:
        return Daemon(self.config, environ={"TASKENGINE_BENCH_RECORDS": str(self.records)})

    async def sql(self, statement: str) -> object:
        async with self.engine.parts.store.connection() as c:
            return await c.fetchval(statement)

    async def clear(self) -> None:
        await self.sql("truncate task_executions cascade")
        parts = self.engine.parts
        for queue in parts.queues.names:
            keys = (
                parts.keys.queue(queue),
                parts.keys.processing(queue),
                parts.keys.delayed(queue),
            )
            await parts.client.command("DEL", *keys)


async def limits(bench: Bench, count: int = 200) -> dict[str, float]:
    """What the machine itself takes for a commit and for a round trip, ms (medians)."""
    await bench.sql("create table if not exists bench_commits (at timestamptz default now())")
    statement = "insert into bench_commits default values returning 1"
    return {
        "commit_ms": await _median_ms(lambda: bench.sql(statement), count),
        "select_ms": await _median_ms(lambda: bench.sql("select 1"), count),
        "redis_ms": await _median_ms(lambda: bench.engine.parts.client.command("PING"), count),
    }


async def _median_ms(work: Callable[[], Awaitable[object]], count: int) -> float:
    took = []
    for _ in range(count):
        await asyncio.sleep(0.002)
        begun = time.perf_counter()
        await work()
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took)


async def bulk(bench: Bench, count: int = 20_000) -> float:
    """`dispatch_many` of all at once, executions/s."""
    begun = time.perf_counter()
    await bench.engine.dispatch_many([noop.call() for _ in range(count)])
    return count / (time.perf_counter() - begun)


async def concurrent(bench: Bench, count: int = 10_000, producers: int = 50) -> float:
    """`dispatch` by 50 coroutines on one loop, executions/s."""

    async def produce() -> None:
        for _ in range(count // producers):
            await bench.engine.dispatch(noop.call())

    begun = time.perf_counter()
    await asyncio.gather(*(produce() for _ in range(producers)))
    return count / (time.perf_counter() - begun)


async def sequential(bench: Bench, count: int = 2_000) -> float:
    """`dispatch` one after the other, executions/s."""
    begun = time.perf_counter()
    for _ in range(count):
        await bench.engine.dispatch(noop.call())
    return count / (time.perf_counter() - begun)


async def drain(bench: Bench, analyze: str = "") -> dict[str, float]:
    """Settled executions/s of a daemon that finds 20,000 no-op jobs, by the database's clock.

    `analyze`: "idle" while nothing is pending, "loaded" while everything is and nothing runs: the
    two moments after which a planner believes the partial indexes to be empty.
    """
    await bench.clear()
    if analyze == "idle":
        await bench.sql("analyze task_executions")
    await bulk(bench, _DRAIN)
    if analyze == "loaded":
        await bench.sql("analyze task_executions")
    with bench.daemon() as daemon:
        begun = await _first_claim(bench, daemon)
        await _until_settled(bench)
        cpu = daemon.cpu() - begun
        rss = daemon.rss()
    seconds = await bench.sql(
        "select extract(epoch from max(finished_at) - min(claimed_at))::float8 from task_executions"
    )
    done = await bench.sql("select count(*) from task_executions where state = 'succeeded'")
    if done != _DRAIN or not isinstance(seconds, float):
        raise RuntimeError(f"{done} of {_DRAIN} succeeded")
    return {"per_second": _DRAIN / seconds, "cpu_us": cpu / _DRAIN * 1e6, "rss_mb": rss}


async def _first_claim(bench: Bench, daemon: Daemon) -> float:
    """The daemon's CPU seconds when it has begun: its start is not the drain's."""
    statement = "select exists (select from task_executions where state <> 'pending')"
    cpu = daemon.cpu()
    while not await bench.sql(statement):
        cpu = daemon.cpu()
        await asyncio.sleep(0.01)
    return cpu


async def _until_settled(bench: Bench) -> None:
    end = time.monotonic() + _LIMIT
    statement = "select exists (select from task_executions where state in ('pending', 'running'))"
    while await bench.sql(statement):
        if time.monotonic() > end:
            raise TimeoutError("the drain did not end")
        await asyncio.sleep(_LOOK)


async def latency_and_idle(bench: Bench, count: int = 300) -> dict[str, float]:
    """ms from the dispatch's call to the job's start on an idle worker; then what idling costs."""
    await bench.clear()
    bench.records.write_bytes(b"")
    with bench.daemon() as daemon:
        await bench.engine.dispatch(noop.call())
        await _until_settled(bench)
        for _ in range(count):
            await bench.engine.dispatch(started.call(at=time.time()))
            await asyncio.sleep(0.02)
        await _until_settled(bench)
        took = _took(bench.records)
        return {
            "p50_ms": took[len(took) // 2],
            "p95_ms": took[int(len(took) * 0.95)],
            "p99_ms": took[int(len(took) * 0.99)],
            **await _idle(bench, daemon),
        }


def _took(records: Path) -> list[float]:
    pairs = RECORD.iter_unpack(records.read_bytes())
    return sorted((begun - asked) * 1000 for asked, begun in pairs)


async def _idle(bench: Bench, daemon: Daemon, seconds: float = 15.0) -> dict[str, float]:
    """CPU and commands of an idle daemon."""
    await asyncio.sleep(2)
    cpu, commands, transactions = daemon.cpu(), await _commands(bench), await _transactions(bench)
    await asyncio.sleep(seconds)
    return {
        "idle_cpu_percent": (daemon.cpu() - cpu) / seconds * 100,
        "idle_redis_commands_per_second": (await _commands(bench) - commands - 1) / seconds,
        "idle_postgres_transactions_per_second": (await _transactions(bench) - transactions - 1)
        / seconds,
    }


async def _commands(bench: Bench) -> int:
    """Commands that clients sent; those that scripts call are counted by Redis as well: left out."""
    stats = await bench.engine.parts.client.command("INFO", "commandstats")
    sent = ("evalsha", "eval", "ping", "zmscore", "info", "subscribe")
    calls = {name: stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in (*sent, "zcard")}
    return sum(calls.values())


async def _transactions(bench: Bench) -> int:
    found = await bench.sql(
        "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
    )
    return int(str(found))
