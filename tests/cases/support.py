"""A ground for cases about processes: real daemons on this test's schema and prefix.

Their beats, leases and graces are short, and their jobs (`case_jobs`) write a line for every run.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taskengine import TaskEngine
from taskengine.lifecycle.definitions import sync
from taskengine.lifecycle.parts import Parts
from taskengine.model.registry import Registry
from tests.support.daemon import Daemon
from tests.support.until import until

JOBS = "tests.cases.case_jobs"

_QUICK: Mapping[str, Mapping[str, object]] = {
    "web": {"port": 0},
    "workers": {"slots": 20, "drain_timeout": 0.5, "poll_interval": 0.2},
    "heartbeat": {"beat": 0.3, "lease": 1.2},
    "recovery": {
        "reserve_grace": 0.5,
        "delivery_sweep": 0.3,
        "over_time_sweep": 0.5,
        "divergence": 0.5,
        "check_after": 0.5,
    },
}


def case_registry() -> Registry:
    """The jobs of the cases."""
    return Registry.load([JOBS])


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Ground:
    """Daemons on the stores of `parts`, whose registry is `case_registry()`."""

    def __init__(self, parts: Parts, folder: Path) -> None:
        self.parts = parts
        self.folder = folder
        self.engine = TaskEngine.of(parts)
        self.log = folder / "daemon.log"
        self.runs_file = folder / "runs"
        self._daemons: list[Daemon] = []

    async def open(self) -> Ground:
        """The definitions are there before any daemon is."""
        await sync(self.parts)
        return self

    def daemon(self, dies_at: str | None = None, **sections: Mapping[str, object]) -> Daemon:
        """One more daemon, started. `dies_at`: see `case_jobs.DEATHS`; `sections` of its
        configuration overrule the quick ones, key by key."""
        path = self.write_config(**sections)
        environ = {"CASE_RUNS": str(self.runs_file), "CASE_DIES_AT": dies_at or ""}
        daemon = Daemon(path, self.log, environ)
        daemon.start()
        self._daemons.append(daemon)
        return daemon

    def write_config(self, **sections: Mapping[str, object]) -> Path:
        """A configuration file of the next daemon."""
        path = self.folder / f"daemon-{len(self._daemons) + 1}.toml"
        path.write_text(self._toml(sections))
        return path

    def _toml(self, sections: Mapping[str, Mapping[str, object]]) -> str:
        config = self.parts.config
        dsn = config.postgres.dsn.get_secret_value() if config.postgres.dsn else ""
        named: dict[str, dict[str, object]] = {
            "postgres": {"dsn": dsn, "schema": config.postgres.schema_name},
            "redis": {"url": config.redis.url.get_secret_value(), "prefix": config.redis.prefix},
            "jobs": {"modules": [JOBS]},
        }
        for name, values in (*_QUICK.items(), *sections.items()):
            named[name] = {**named.get(name, {}), **values}
        named["workers"]["lock_dir"] = str(self.folder / "locks")
        return "\n".join(
            f"[{name}]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in values.items())
            for name, values in named.items()
        )

    def end(self) -> None:
        """No daemon is left behind, whatever became of the test."""
        for daemon in self._daemons:
            if daemon.runs:
                daemon.kill()

    # ---- looking -----------------------------------------------------------------------------

    async def sql(self, statement: str, *args: object) -> list[dict[str, Any]]:
        async with self.parts.store.connection() as c:
            return [dict(row) for row in await c.fetch(statement, *args)]

    async def count(self, condition: str, *args: object) -> int:
        rows = await self.sql(f"select count(*) n from task_executions where {condition}", *args)
        return int(rows[0]["n"])

    async def until_count(self, condition: str, count: int, seconds: float = 30.0) -> None:
        """Until at least so many rows are so."""

        async def enough() -> bool:
            return await self.count(condition) >= count

        await until(enough, seconds)

    async def until_dead(self, daemon: Daemon) -> None:
        """Until the process has ended by itself."""
        await until(lambda: not daemon.runs)

    def runs(self) -> Counter[int]:
        """How often the body of each execution has begun, over all daemons."""
        if not self.runs_file.exists():
            return Counter()
        return Counter(int(line.split()[0]) for line in self.runs_file.read_text().splitlines())

    async def left(self) -> dict[str, int]:
        """How many messages there are in all queues together, by where they are."""
        depths = (await self.parts.queues.depths()).values()
        return {
            "queue": sum(d.waiting for d in depths),
            "processing": sum(d.processing for d in depths),
            "delayed": sum(d.delayed for d in depths),
        }

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The log's lines of this event, over all daemons."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]
        return [line for line in lines if line.get("event") == event]
