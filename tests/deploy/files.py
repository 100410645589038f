"""What is in `deploy/`, read without a YAML parser: its files are written in one plain style."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
ALERT_FILES = sorted((PROMETHEUS / "alerts").glob("*.yml"))
CASE_FILES = sorted((PROMETHEUS / "tests").glob("*.yml"))
RULE_FILES = [PROMETHEUS / "recording.yml", *ALERT_FILES]

_ALERT = re.compile(r"^      - alert: (\w+)\n((?:        .*\n)+)", re.MULTILINE)
_CASE = re.compile(r'^  - name: "(\w+) (fires|is silent): (.+)"\n((?:    .*\n)+)', re.MULTILINE)
_METRIC = re.compile(r"(?<![\w:])(?:taskengine|process)_\w+(?![\w:]*:)")


class Case(NamedTuple):
    """A unit test of an alert."""

    alert: str
    fires: bool
    why: str
    body: str


def alerts() -> dict[str, str]:
    """Name → the text of the rule."""
    return dict(pair for file in ALERT_FILES for pair in _ALERT.findall(file.read_text()))


def cases() -> list[Case]:
    found = [each for file in CASE_FILES for each in _CASE.findall(file.read_text())]
    return [Case(alert, verb == "fires", why, body) for alert, verb, why, body in found]


def metrics_in(text: str) -> set[str]:
    """The names of ours that stand in it; those of recording rules have a colon and do not count."""
    return set(_METRIC.findall(text))


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana/taskengine.json").read_text())
    return found


def dashboard_queries() -> Iterator[str]:
    """Each expression, its variables replaced as Grafana does for "All"."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            text: str = target["expr"]
            for name, value in (("instance", ".*"), ("queue", ".*"), ("__rate_interval", "1m")):
                text = text.replace(f"${name}", value)
            yield text


def shown(page: str) -> set[str]:
    """The names of the samples that a page in the plain format may hold."""
    names = set[str]()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", page, re.MULTILINE):
        names |= (
            {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
        )
    return names
