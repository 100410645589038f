"""The seam: who wants an event gets it; nobody's error reaches who told it."""

from collections.abc import Iterator
from typing import Any

import pytest

from taskengine.telemetry import events
from taskengine.telemetry.events import emit, heard, subscribe

Told = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def told() -> Iterator[Told]:
    """What a listener to everything under `test.` was told."""
    heard_of: Told = []
    end = subscribe(
        lambda event, fields: heard_of.append((event, dict(fields))),
        lambda event: event.startswith("test."),
    )
    yield heard_of
    end()


def test_a_listener_is_told_of_what_it_wants(told: Told) -> None:
    emit("test.claimed", count=3, queue="high")
    emit("other.claimed", count=3)
    assert told == [("test.claimed", {"count": 3, "queue": "high"})]


def test_a_field_may_be_called_event(told: Told) -> None:
    emit("test.claimed", event="x")
    assert told == [("test.claimed", {"event": "x"})]


def test_ends_with_its_subscription() -> None:
    got: list[str] = []
    end = subscribe(lambda event, _: got.append(event))
    emit("test.one")
    end()
    emit("test.two")
    assert "test.one" in got
    assert "test.two" not in got


def test_refresh_asks_anew() -> None:
    wanted: set[str] = set()
    end = subscribe(lambda *_: None, wanted.__contains__)
    assert not heard("test.unheard")
    wanted.add("test.unheard")
    assert not heard("test.unheard")
    events.refresh()
    assert heard("test.unheard")
    end()


def test_a_listener_that_raises_is_counted_and_disturbs_nobody(told: Told) -> None:
    def broken(event: str, fields: events.Fields) -> None:
        raise RuntimeError

    end = subscribe(broken, lambda event: event == "test.broken")
    before = events.broken_listeners().get("test.broken", 0)
    emit("test.broken")
    end()
    assert events.broken_listeners()["test.broken"] == before + 1
    assert [event for event, _ in told] == ["test.broken"]
