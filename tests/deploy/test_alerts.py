"""The alerts: each has its cases, its section in the runbook, and metrics that exist."""

from __future__ import annotations

import re

import pytest

from taskengine.cli.commands import COMMANDS
from taskengine.telemetry.metrics import Metrics
from tests.deploy.files import (
    CASE_FILES,
    DEPLOY,
    RULE_FILES,
    alerts,
    cases,
    dashboard,
    dashboard_queries,
    metrics_in,
    shown,
)

WANTED = """
Down LoopStalled PayrollLate NothingConsumed Unpolled UnlistedQueue UnknownJob Failures DeadWork
Orphans Quarantined WebhooksStranded ScheduleMissed SignatureFailures DrainStuck LoopLag PoolFull
DirectMode Divergence ClockSkew Unwatched PostgresAway
"""
NAMES = sorted(alerts())
_SECTION = re.compile(r"^## (TaskEngine\w+)\n((?:.+\n)+)", re.MULTILINE)
_COMMAND = re.compile(r"`taskengine ([a-z-]+)(?: ([a-z-]+))?")


@pytest.fixture
def page() -> str:
    metrics = Metrics(version="1", queues=["low"], sources=["everee"], now=lambda: 0.0)
    return metrics.render(None)[0].decode()


def runbook() -> dict[str, str]:
    return dict(_SECTION.findall((DEPLOY / "README.md").read_text()))


def test_what_must_be_told_is_told() -> None:
    assert {f"TaskEngine{name}" for name in WANTED.split()} <= set(NAMES)
    text = "".join(file.read_text() for file in RULE_FILES)
    assert len(NAMES) == text.count("- alert:"), "two of one name, or one that was not read"


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_fires_when_it_should_and_not_else(name: str) -> None:
    of = [case for case in cases() if case.alert == name]
    assert [case.why for case in of if case.fires], "no case in which it fires"
    assert [case.why for case in of if not case.fires], "no case in which it is silent"
    for case in of:
        assert f"alertname: {name}\n" in case.body
        assert case.fires == ("exp_labels" in case.body)


def test_every_case_was_read() -> None:
    text = "".join(file.read_text() for file in CASE_FILES)
    assert len(cases()) == text.count("alertname:") == text.count("- name:")


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_says_how_bad_what_and_where_to_read_on(name: str) -> None:
    rule = alerts()[name]
    assert re.search(r"labels: \{severity: (critical|warning)\}", rule)
    assert re.search(r'summary: ".+"', rule)
    assert re.search(r'description: ".+"', rule)
    assert f"runbook_url: deploy/README.md#{name.lower()}\n" in rule
    section = runbook()[name]
    assert "`taskengine " in section or "Look: `" in section or "Look at" in section


def test_the_runbook_has_no_section_too_many() -> None:
    assert set(runbook()) == set(NAMES)


def test_the_runbook_names_commands_that_exist() -> None:
    named = _COMMAND.findall("".join(runbook().values()))
    assert named
    for command, verb in named:
        assert command in COMMANDS
        verbs = COMMANDS[command].verbs
        assert not verbs or not verb or verb in verbs.split("|")


def test_every_metric_that_is_asked_for_exists(page: str) -> None:
    exist = shown(page) | {"process_start_time_seconds"}
    for file in [*RULE_FILES, *CASE_FILES]:
        assert metrics_in(file.read_text()) <= exist, file.name
    for query in dashboard_queries():
        assert metrics_in(query) <= exist, query


def test_the_dashboard_shows_every_metric(page: str) -> None:
    """Whatever is measured can be looked at; `_sum` and `_count` go with their buckets."""
    asked = metrics_in("\n".join([*dashboard_queries(), *(f.read_text() for f in RULE_FILES)]))
    of_us = {name for name in shown(page) if name.startswith("taskengine_")}
    unseen = {n for n in of_us - asked if not n.endswith(("_sum", "_count"))}
    assert unseen == set()


def test_the_dashboards_variables_are_those_that_its_queries_use() -> None:
    names = [each["name"] for each in dashboard()["templating"]["list"]]
    assert names == ["datasource", "instance", "queue"]
    text = (DEPLOY / "grafana/taskengine.json").read_text()
    assert set(re.findall(r"\$(\w+)", text)) == {*names, "__rate_interval", "__all"}
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    assert {panel["datasource"]["uid"] for panel in panels} == {"$datasource"}
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])


def test_no_rule_sums_what_only_one_daemon_knows() -> None:
    """NaN on the others would make the sum NaN, and no alert fires on that."""
    for file in RULE_FILES:
        for gauge in re.findall(r"(?:sum|avg)[^\n]*?\((taskengine_\w+)", file.read_text()):
            assert gauge.endswith("_total"), gauge
