"""The retry formula, to the letter, at every attempt number."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskengine.model.retry import MAX_DELAY, backoff_delay, may_retry


class NoJitter(random.Random):
    """Draws the lowest value each time."""

    def uniform(self, a: float, b: float) -> float:
        return a


class FullJitter(random.Random):
    """Draws the highest value each time."""

    def uniform(self, a: float, b: float) -> float:
        return b


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(1, 60), (2, 60), (3, 120), (4, 240), (7, 1920), (8, 3600), (9, 3600), (1_000_000, 3600)],
)
def test_doubles_from_the_third_attempt_on_up_to_an_hour(attempt: int, seconds: float) -> None:
    assert backoff_delay(attempt, 60.0, NoJitter()) == seconds


def test_the_jitter_is_ten_per_cent_and_comes_before_the_cap() -> None:
    assert backoff_delay(3, 60.0, FullJitter()) == pytest.approx(132.0)
    assert backoff_delay(2, 3_500.0, FullJitter()) == MAX_DELAY
    assert backoff_delay(2, 3_600.0, FullJitter()) == MAX_DELAY


def test_no_backoff_means_at_once() -> None:
    assert backoff_delay(10**9, 0.0, FullJitter()) == 0.0


@settings(derandomize=True, deadline=None)
@given(
    attempt=st.integers(min_value=0, max_value=10**12),
    base=st.floats(min_value=0, max_value=1e300),
    seed=st.integers(),
)
def test_stays_between_the_plain_delay_and_its_bounds(attempt: int, base: float, seed: int) -> None:
    delay = backoff_delay(attempt, base, random.Random(seed))
    exponent = max(0, attempt - 2)
    plain = min(base * 2**exponent, MAX_DELAY) if exponent < 64 else (MAX_DELAY if base else 0.0)
    if exponent < 64 or base > 1e-9:
        assert min(plain, MAX_DELAY) <= delay <= min(plain * 1.1 + 1e-9, MAX_DELAY)
    assert math.isfinite(delay)


def test_the_same_chance_gives_the_same_delay() -> None:
    assert backoff_delay(5, 10, random.Random(7)) == backoff_delay(5, 10, random.Random(7))


@pytest.mark.parametrize(
    ("attempt", "most", "again"),
    [(1, 0, False), (1, 1, False), (1, 2, True), (2, 3, True), (3, 3, False), (4, 3, False)],
)
def test_an_attempt_is_followed_by_another_only_below_the_most(
    attempt: int, most: int, again: bool
) -> None:
    assert may_retry(attempt, most) is again
