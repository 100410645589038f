"""A running daemon, and a real Prometheus beside it that reads our own configuration."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio

from taskengine import TaskEngine
from taskengine.config import Config
from taskengine.embedded import EmbeddedServers
from tests.deploy.files import PROMETHEUS
from tests.support.daemon import Daemon
from tests.support.until import until

_CONFIG = """
[postgres]
dsn = "{dsn}"
[redis]
url = "{redis}"
[migrate]
auto = true
[jobs]
modules = ["tests.deploy.watched_jobs"]
[web]
port = {port}
[webhooks.sources.everee]
scheme = "github"
keys = ["0123456789abcdef0123456789abcdef"]
job = "watched-good"
type = "header:x-github-event"
id = "header:x-github-delivery"
"""


class Watched(NamedTuple):
    """A daemon that runs, and where it answers."""

    engine: TaskEngine
    address: str

    def page(self, accept: str = "text/plain;version=0.0.4") -> str:
        answer = httpx.get(f"http://{self.address}/metrics", headers={"accept": accept})
        return answer.raise_for_status().text


class Prometheus(NamedTuple):
    """A server that runs, and where it answers."""

    address: str

    async def get(self, path: str, **params: str) -> Any:
        """The data of an answer of its API."""
        async with httpx.AsyncClient(base_url=f"http://{self.address}/api/v1/") as client:
            answer = (await client.get(path, params=params)).json()
        assert answer["status"] == "success", (params, answer)
        return answer["data"]

    async def value(self, query: str) -> float | None:
        """Of the first series that the query finds."""
        found = (await self.get("query", query=query))["result"]
        return float(found[0]["value"][1]) if found else None


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


@pytest_asyncio.fixture(scope="module")
async def daemon(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    """With stores of its own, and one execution of each kind behind it."""
    folder = tmp_path_factory.mktemp("watched")
    servers = EmbeddedServers(folder, durable=False)
    told, port = servers.start(), free_port()
    path = folder / "watched.toml"
    path.write_text(_CONFIG.format(dsn=told.dsn, redis=told.redis_url, port=port))
    address = f"127.0.0.1:{port}"
    try:
        with Daemon(path, folder / "log"):
            await until(lambda: _answers(f"http://{address}/readyz"), seconds=60)
            async with TaskEngine(Config.load(path)) as engine:
                for job in ("watched-good", "watched-bad"):
                    sent = await engine.dispatch(job)
                    await engine.wait(sent.execution_id, 30)
                yield Watched(engine, address)
    finally:
        servers.remove()


@pytest.fixture
def prometheus(daemon: Watched, tmp_path: Path) -> Iterator[Prometheus]:
    """Our configuration and rules as they are, but for the target, the rhythm and the port."""
    shutil.copytree(PROMETHEUS, tmp_path / "etc")
    config = tmp_path / "etc/prometheus.yml"
    text = config.read_text().replace("127.0.0.1:8080", daemon.address)
    assert daemon.address in text
    config.write_text(
        text.replace("interval: 15s", "interval: 1s").replace("timeout: 10s", "timeout: 1s")
    )
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={address}",
        "--enable-feature=exemplar-storage",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Prometheus(address)
    finally:
        process.terminate()
        process.wait(60)


async def _answers(url: str) -> bool:
    try:
        return (await asyncio.to_thread(httpx.get, url)).status_code == 200
    except httpx.TransportError:
        return False
