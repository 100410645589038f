"""Labels whose number of values is bounded, and children of a metric found at the cost of a dict.

A label value that is neither known nor within the cap becomes "other": a metric's memory is never
given back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

OTHER: Final = "other"
LOOPS: Final = 50  # of a process: more than there will ever be

C = TypeVar("C")


class Label:
    """The values of one label: those known at the start, and up to `room` that turn up later."""

    def __init__(self, known: Iterable[str] = (), room: int = 0) -> None:
        self._known = {*known, OTHER}
        self._room = room

    def learn(self, value: str) -> str:
        """The value itself if it may be a label (knowing it from now on), else "other"."""
        if value in self._known:
            return value
        if self._room <= 0 or not value:
            return OTHER
        self._room -= 1
        self._known.add(value)
        return value

    @property
    def values(self) -> frozenset[str]:
        """All that are known, "other" among them."""
        return frozenset(self._known)


class Children(Generic[C]):
    """The children of a metric by what the event says; each is made once."""

    def __init__(self, make: Callable[..., C], *labels: Label) -> None:
        self._make = make
        self._labels = labels
        self._found: dict[tuple[str, ...], C] = {}

    def __call__(self, *values: str) -> C:
        child = self._found.get(values)
        return self._add(values) if child is None else child

    def _add(self, values: tuple[str, ...]) -> C:
        bounded = tuple(
            label.learn(value) for label, value in zip(self._labels, values, strict=True)
        )
        child = self._found.get(bounded)
        if child is None:
            child = self._found[bounded] = self._make(*bounded)
        if len(self._found) < _REMEMBERED:  # what became "other" is remembered too, within bounds
            self._found[values] = child
        return child


_REMEMBERED = 10_000
