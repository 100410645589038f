"""An installation as `deploy/` describes it: Postgres with its roles, Valkey with its user."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from tests.support.daemon import Daemon

DEPLOY = Path(__file__).parents[3] / "deploy"
OWNER, RUNTIME, DISPATCH, READONLY = (
    f"taskengine_{word}" for word in ("owner", "runtime", "dispatch", "readonly")
)

_CONFIG = """
[postgres]
dsn = "{dsn}"
[redis]
url = "{redis}"
[jobs]
modules = ["tests.deploy.access.guarded_jobs"]
[heartbeat]
beat = 0.2
lease = 0.8
[recovery]
delivery_sweep = 0.5
over_time_sweep = 0.5
divergence = 0.5
[retention]
every = 0.5
[webhooks]
every = 0.5
[web]
port = 0
"""


@dataclass
class Guarded:
    """One folder with a configuration for each role."""

    folder: Path
    socket: str  # what a DSN says of the server
    redis_url: str

    def dsn(self, role: str) -> str:
        return f"postgresql://{role}@/guarded?{self.socket}"

    def config(self, role: str) -> Path:
        path = self.folder / f"{role}.toml"
        path.write_text(_CONFIG.format(dsn=self.dsn(role), redis=self.redis_url))
        return path

    def daemon(self, role: str) -> Daemon:
        return Daemon(self.config(role), self.log)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def run(self, role: str, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line, as this role."""
        command = [sys.executable, "-m", "taskengine", *words, "--config", str(self.config(role))]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def say(self, role: str, *words: str) -> str:
        """The same, where it has to succeed."""
        done = self.run(role, *words)
        assert done.returncode == 0, f"{role}: {words}: {done.stderr}"
        return done.stdout

    async def sql(self, role: str, text: str) -> list[Any]:
        """One statement, as this role, on a connection of its own."""
        c = await asyncpg.connect(self.dsn(role), server_settings={"search_path": "taskengine"})
        try:
            return list(await c.fetch(text))
        finally:
            await c.close()

    async def script(self, role: str, name: str) -> None:
        """A file of `deploy/postgres/`, as this role."""
        c = await asyncpg.connect(self.dsn(role))
        try:
            await c.execute((DEPLOY / "postgres" / name).read_text())
        finally:
            await c.close()

    async def set_up(self) -> None:
        """As the files say it: database, roles, migrations by the owner, grants; each twice."""
        c = await asyncpg.connect(self.dsn("taskengine").replace("/guarded?", "/taskengine?"))
        try:
            await c.execute("create database guarded")
        finally:
            await c.close()
        for _ in range(2):
            await self.script("taskengine", "roles.sql")
            await asyncio.to_thread(self.say, OWNER, "migrate", "up")
            await self.script(OWNER, "grants.sql")

    def logged(self, *levels: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["level"] in levels]
