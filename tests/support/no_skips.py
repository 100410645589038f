"""A pytest plugin: what is skipped has not been tested, so it has failed.

Loaded by `tests/run`. (A run without any test fails by pytest's own exit status 5.)
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

WORDS = "a skipped test is a failure here; deselect it by a mark, or bring what it needs"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Outermost, so that expected failures are marked as such by then."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        fail(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Whole files that skip themselves, with importorskip for one."""
    report = yield
    if report.skipped:
        fail(report)
    return report


def fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Keep where and why it was skipped, and say what is wrong with that."""
    why = report.longrepr
    place, line, reason = why if isinstance(why, tuple) else ("", 0, str(why))
    report.outcome = "failed"
    report.longrepr = f"{place}:{line}: {reason}\n{WORDS}"
