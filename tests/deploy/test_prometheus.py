"""A real Prometheus, our own configuration and a running daemon."""

from __future__ import annotations

import httpx
import pytest

from tests.deploy.conftest import Prometheus, Watched
from tests.deploy.files import alerts, dashboard_queries
from tests.support.until import until

pytestmark = pytest.mark.system

_DURATION = "taskengine_execution_duration_seconds_bucket"


async def test_it_scrapes_a_daemon(daemon: Watched, prometheus: Prometheus) -> None:
    async def up() -> bool:
        try:
            return await prometheus.value("up") == 1
        except (httpx.TransportError, ValueError):  # not there, or not ready
            return False

    await until(up, seconds=60)
    await _the_executions_are_counted(prometheus)
    await _the_slowest_is_named(daemon, prometheus)
    await _every_rule_can_be_evaluated(prometheus)
    await _every_query_of_the_dashboard_can_be_answered(prometheus)


async def _the_executions_are_counted(prometheus: Prometheus) -> None:
    settled = "taskengine_executions_settled_total"
    for task, outcome in (("watched-good", "succeeded"), ("watched-bad", "failed")):
        assert await prometheus.value(f'{settled}{{task="{task}", outcome="{outcome}"}}') == 1
        assert await prometheus.value(f'{settled}{{task="{task}", outcome="quarantined"}}') == 0
    misses = 'taskengine_scheduler_misses_total{task="watched-tick", reason="too_late"}'
    assert await prometheus.value(misses) == 0
    received = 'taskengine_webhooks_received_total{source="everee", result="bad_signature"}'
    assert await prometheus.value(received) == 0
    assert await prometheus.value("process_resident_memory_bytes") != 0


async def _the_slowest_is_named(daemon: Watched, prometheus: Prometheus) -> None:
    """By its id, in the format that Prometheus itself asks for."""
    window = {"start": "0", "end": "9999999999"}
    (found,) = await prometheus.get(
        "query_exemplars", query=f'{_DURATION}{{task="watched-good"}}', **window
    )
    named = int(found["exemplars"][0]["labels"]["execution_id"])
    assert (await daemon.engine.get(named)).job == "watched-good"


async def _every_rule_can_be_evaluated(prometheus: Prometheus) -> None:
    async def rules() -> list[dict[str, str]]:
        groups = (await prometheus.get("rules"))["groups"]
        found = [rule for group in groups for rule in group["rules"]]
        return found if all(rule["health"] != "unknown" for rule in found) else []

    found = await until(rules, seconds=60)
    assert {rule["health"] for rule in found} == {"ok"}
    assert {rule["name"] for rule in found if rule["type"] == "alerting"} == set(alerts())


async def _every_query_of_the_dashboard_can_be_answered(prometheus: Prometheus) -> None:
    for query in dashboard_queries():
        await prometheus.get("query", query=query)
