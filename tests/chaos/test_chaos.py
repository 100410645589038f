"""Two minutes of chaos, and that a plan is its seed's alone."""

from __future__ import annotations

import pytest

from tests.chaos.faults import KINDS
from tests.chaos.run import Order, Run


def test_a_seed_gives_the_same_plan_again() -> None:
    assert Order(seed=7).plan() == Order(seed=7).plan() != Order(seed=8).plan()


def test_ten_minutes_hold_a_hundred_faults_of_every_kind() -> None:
    steps = Order(seed=1, minutes=10).plan()
    assert len(steps) >= 100
    assert {step.kind for step in steps} == set(KINDS)


def test_two_faults_of_one_group_never_meet() -> None:
    steps = Order(seed=1, minutes=10).plan()
    for step in steps:
        meets = [s for s in steps if s is not step and s.at < step.end and step.at < s.end]
        assert step.group not in {each.group for each in meets}


@pytest.mark.slow
async def test_two_minutes_of_chaos() -> None:
    report = await Run(Order(seed=1, minutes=2, daemons=3)).run()
    assert report.ok, report.as_text()
