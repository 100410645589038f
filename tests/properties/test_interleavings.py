"""Whatever happens in whatever order, the invariants hold: see `machine`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from pydantic import SecretStr

from taskengine.config import Config
from taskengine.embedded import Servers
from tests.properties.machine import Interleavings
from tests.properties.site import Site

QUICK = settings(
    max_examples=100,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def site(
    servers: Servers, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Site]:
    config = Config.model_validate(
        {
            "engine": {"queues": ["default", "low"]},
            "postgres": {"dsn": SecretStr(servers.dsn), "schema": "properties"},
            "redis": {"url": SecretStr(servers.redis_url), "prefix": "properties"},
            "workers": {"slots": 20, "lock_dir": Path(tmp_path_factory.mktemp("locks"))},
            "web": {"port": 0},
        }
    )
    first = str(request.config.getoption("loops")).split(",")[0]
    site = Site(config, asyncio.new_event_loop if first == "asyncio" else uvloop.new_event_loop)
    yield site
    site.close()


def test_any_interleaving_keeps_the_invariants(site: Site) -> None:
    class Here(Interleavings):
        pass

    Here.site = site
    chosen = settings() if settings.get_current_profile_name() != "default" else QUICK
    run_state_machine_as_test(Here, settings=chosen)
