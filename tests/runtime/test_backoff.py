"""Longer each time, never longer than the cap, and anew after a success."""

import random

from taskengine.runtime.backoff import Backoff


def test_doubles_up_to_the_cap_and_resets() -> None:
    backoff = Backoff(0.5, 5.0)
    assert [backoff.next() for _ in range(5)] == [0.5, 1.0, 2.0, 4.0, 5.0]
    backoff.reset()
    assert backoff.next() == 0.5


def test_no_number_of_tries_overflows() -> None:
    backoff = Backoff(1.0, 60.0)
    assert {backoff.next() for _ in range(5000)} >= {1.0, 60.0}


def test_chance_shortens_by_up_to_half() -> None:
    backoff = Backoff(8.0, 8.0, random.Random(1))
    delays = [backoff.next() for _ in range(200)]
    assert all(4.0 < delay <= 8.0 for delay in delays)
    assert len(set(delays)) > 100
