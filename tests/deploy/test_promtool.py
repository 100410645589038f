"""promtool's judgement: of a real page, of the rules and their cases, of the configuration."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.deploy.conftest import Watched
from tests.deploy.files import (
    CASE_FILES,
    PROMETHEUS,
    RULE_FILES,
    dashboard_queries,
    metrics_in,
    shown,
)

pytestmark = pytest.mark.system


def promtool(*arguments: str | Path, stdin: str = "") -> tuple[int, str]:
    """(exit status, all that it said)."""
    done = subprocess.run(
        ["promtool", *map(str, arguments)], check=False, input=stdin, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


async def test_check_metrics_has_nothing_to_say(daemon: Watched) -> None:
    assert promtool("check", "metrics", stdin=daemon.page()) == (0, "")


def test_check_metrics_would_say_it() -> None:
    status, text = promtool("check", "metrics", stdin="# TYPE a counter\na 1\n")
    assert status != 0
    assert "_total" in text


async def test_a_real_page_holds_every_metric_that_is_asked_for(daemon: Watched) -> None:
    exist = shown(daemon.page())
    for file in RULE_FILES:
        assert metrics_in(file.read_text()) <= exist, file.name
    for query in dashboard_queries():
        assert metrics_in(query) <= exist, query


def test_check_rules() -> None:
    status, text = promtool("check", "rules", *RULE_FILES)
    assert status == 0, text


@pytest.mark.parametrize("file", CASE_FILES, ids=lambda path: path.stem)
def test_the_cases_of_the_alerts(file: Path) -> None:
    status, text = promtool("test", "rules", file)
    assert status == 0, text


@pytest.mark.parametrize("file", CASE_FILES, ids=lambda path: path.stem)
def test_the_cases_can_fail(file: Path, tmp_path: Path) -> None:
    """An alert that is spelt otherwise is missed by the case in which it fires."""
    (tmp_path / "recording.yml").write_text((PROMETHEUS / "recording.yml").read_text())
    (tmp_path / "alerts").mkdir()
    rules = (PROMETHEUS / "alerts" / file.name).read_text()
    (tmp_path / "alerts" / file.name).write_text(rules.replace("alert: Task", "alert: NoTask"))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / file.name).write_text(file.read_text())
    status, text = promtool("test", "rules", tmp_path / "tests" / file.name)
    assert status != 0
    assert text.count("fires:") == rules.count("- alert:")


@pytest.mark.parametrize("file", CASE_FILES, ids=lambda path: path.stem)
def test_the_cases_say_the_order_of_the_groups(file: Path) -> None:
    """Without it promtool takes them in any order: an alert may see what was recorded a minute ago."""
    groups = re.findall(
        r"^  - name: (\S+)", (PROMETHEUS / "alerts" / file.name).read_text(), re.MULTILINE
    )
    order = ", ".join(["taskengine-recording", *groups])
    assert f"\ngroup_eval_order: [{order}]\n" in file.read_text()


def test_check_config() -> None:
    status, text = promtool("check", "config", PROMETHEUS / "prometheus.yml")
    assert status == 0, text
