"""On a Redis Cluster the prefix must hold a hash tag: asked of a real server in cluster mode."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from taskengine.broker.client import Client
from taskengine.broker.cluster import check_cluster
from taskengine.broker.keys import Keys
from taskengine.config import Redis
from taskengine.embedded.binaries import installed
from taskengine.errors import BrokerUnavailable, ConfigError
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.clock import SystemClock


def _free_port() -> int:
    """A free port whose bus port (10,000 above) is one as well."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
    return port if port < 55_000 else port - 20_000


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Client]:
    port = _free_port()
    words = ["--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--save", ""]
    command = [str(installed().valkey), *words, "--dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    url = SecretStr(f"redis://127.0.0.1:{port}/0")
    client = Client(Redis(url=url, breaker=0.0), SystemClock())
    for _ in range(100):
        try:
            await client.command("PING")
            break
        except BrokerUnavailable:
            await asyncio.sleep(0.05)
    yield client
    await client.close()
    process.terminate()
    process.wait(10)


async def test_a_prefix_without_a_hash_tag_is_refused_on_a_cluster(cluster: Client) -> None:
    with pytest.raises(ConfigError, match=r"'\{taskengine\}'"):
        await check_cluster(cluster, Keys("taskengine"))
    await check_cluster(cluster, Keys("{taskengine}"))


async def test_any_prefix_will_do_elsewhere(parts: Parts) -> None:
    await check_cluster(parts.client, Keys("taskengine"))
