"""Late fire times: run or accounted for, and never more than can be handled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskengine.model.misfire import MisfirePolicy, MisfireRule, MissReason, Plan, plan_fires
from taskengine.model.schedule import Schedule

HOURLY = Schedule.parse("0 * * * *", "UTC")
MINUTELY = Schedule.parse("* * * * *", "UTC")
NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def plan(
    schedule: Schedule, late: timedelta, after_noon: float, policy: str, grace: float = 7 * 3600
) -> Plan:
    now = NOON + timedelta(seconds=after_noon)
    rule = MisfireRule(policy=MisfirePolicy(policy), grace=grace)
    return plan_fires(schedule, now - late, now, rule)


def hours(found: list[datetime]) -> list[int]:
    return [moment.hour for moment in found]


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
def test_a_fire_time_that_is_not_late_is_run_by_every_policy(policy: str) -> None:
    made = plan(HOURLY, timedelta(minutes=1), 0.2, policy, grace=0)
    assert (made.fire, made.missed, made.unlisted) == ([NOON], [], 0)
    assert made.fired_until == NOON + timedelta(seconds=0.2)


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
def test_nothing_due_moves_on(policy: str) -> None:
    made = plan(HOURLY, timedelta(minutes=5), 1800, policy)
    assert made == Plan([], [], 0, NOON + timedelta(minutes=30))


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
def test_a_clock_set_back_runs_nothing_again(policy: str) -> None:
    rule = MisfireRule(policy=MisfirePolicy(policy))
    ahead = NOON + timedelta(hours=1)
    assert plan_fires(HOURLY, ahead, NOON, rule) == Plan([], [], 0, ahead)


def test_skip_runs_no_late_one() -> None:
    made = plan(HOURLY, timedelta(hours=3), 600, "skip")
    assert made.fire == []
    assert hours([moment for moment, _ in made.missed]) == [10, 11, 12]
    assert {reason for _, reason in made.missed} == {MissReason.SKIPPED}


def test_latest_runs_one_and_says_that_it_stands_for_the_others() -> None:
    made = plan(HOURLY, timedelta(hours=3), 600, "latest")
    assert made.fire == [NOON]
    assert [(m.hour, r) for m, r in made.missed] == [
        (10, MissReason.SUPERSEDED),
        (11, MissReason.SUPERSEDED),
    ]


def test_latest_catches_nothing_up_where_one_is_just_due() -> None:
    made = plan(MINUTELY, timedelta(hours=6), 0.5, "latest")
    assert made.fire == [NOON]
    assert len(made.missed) == 359 + 1 - 1
    assert {reason for _, reason in made.missed} == {MissReason.SUPERSEDED}


def test_past_its_grace_even_the_latest_is_missed() -> None:
    made = plan(HOURLY, timedelta(hours=3), 600, "latest", grace=599)
    assert made.fire == []
    assert {reason for _, reason in made.missed} == {MissReason.TOO_LATE}
    assert plan(HOURLY, timedelta(hours=3), 600, "latest", grace=600).fire == [NOON]


def test_all_runs_each_within_the_grace() -> None:
    made = plan(HOURLY, timedelta(hours=4), 600, "all", grace=2 * 3600)
    assert hours(made.fire) == [11, 12]
    assert [(m.hour, r) for m, r in made.missed] == [
        (9, MissReason.TOO_LATE),
        (10, MissReason.TOO_LATE),
    ]


def test_all_takes_what_is_over_the_cap_at_the_next_turn() -> None:
    rule = MisfireRule(policy=MisfirePolicy.ALL, grace=86400, cap=100)
    start, found = NOON - timedelta(minutes=250), []
    for _ in range(3):
        made = plan_fires(MINUTELY, start, NOON, rule)
        assert len(made.fire) <= 100
        found += made.fire
        start = made.fired_until
    assert start == NOON
    assert found == list(MINUTELY.fires(NOON - timedelta(minutes=250), NOON))


def test_a_year_away_is_a_bounded_plan() -> None:
    made = plan(MINUTELY, timedelta(days=365), 0.0, "latest")
    assert made.fire == [NOON]
    assert len(made.missed) == 1000
    assert len(made.fire) + len(made.missed) + made.unlisted == 365 * 1440
    assert made.fired_until == NOON


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    expression=st.sampled_from(
        ["* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "0 0 L * *"]
    ),
    policy=st.sampled_from(MisfirePolicy),
    late=st.integers(1, 3 * 86400),
    grace=st.integers(0, 86400),
    on_time=st.integers(0, 300),
    cap=st.integers(1, 50),
)
def test_every_fire_time_is_run_or_accounted_for(
    expression: str, policy: MisfirePolicy, late: int, grace: int, on_time: int, cap: int
) -> None:
    schedule = Schedule.parse(expression, "America/New_York")
    now = datetime(2026, 11, 1, 15, 0, 20, tzinfo=UTC)
    start = now - timedelta(seconds=late)
    rule = MisfireRule(policy=policy, grace=grace, on_time=on_time, cap=cap)
    made = plan_fires(schedule, start, now, rule)
    covered = schedule.count(start, made.fired_until)
    assert len(made.fire) + len(made.missed) + made.unlisted == covered
    assert len(made.missed) <= cap
    assert set(made.fire).isdisjoint(moment for moment, _ in made.missed)
    assert start < made.fired_until <= now
    timely = schedule.fires(max(start, now - timedelta(seconds=on_time)), made.fired_until)
    assert set(timely) <= set(made.fire)
