"""What only the database knows and somebody should look at: shown by one daemon, NaN on the others.

Names that no configuration lists (a queue taken off the list, a job of an older release) are labels
too, because an alert must say which; so many of them at most, then "other".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Gauge

from taskengine.telemetry.metrics.labels import Label

_STRANGERS = 20
_NONE: Mapping[str, float] = MappingProxyType({})


class Facts(NamedTuple):
    """Numbers by name; whoever is left out has none."""

    paused: Mapping[str, float] = _NONE
    quarantined: Mapping[str, float] = _NONE
    unpolled: Mapping[str, float] = _NONE
    unlisted: Mapping[str, float] = _NONE
    unknown_jobs: Mapping[str, float] = _NONE
    stranded: Mapping[str, float] = _NONE


class Standing:
    """The gauges of these facts."""

    def __init__(
        self, registry: CollectorRegistry, queues: Sequence[str], sources: Sequence[str]
    ) -> None:
        self._shown = Gauge(
            "taskengine_database_watched",
            "Whether this daemon is the one that shows what the database knows.",
            registry=registry,
        )
        strangers = Label(room=_STRANGERS)
        self._families = {
            "paused": _Named(
                registry, ("queue_paused", "Whether a queue is paused.", "queue"), Label(queues)
            ),
            "quarantined": _Named(
                registry,
                ("queue_quarantined", "Failed in 24 h, perhaps done: a person decides.", "queue"),
                Label(queues),
            ),
            "unpolled": _Named(
                registry,
                ("queue_unpolled", "Due executions that no living daemon polls.", "queue"),
                Label(queues),
            ),
            "unlisted": _Named(
                registry,
                ("queue_unlisted", "Pending executions of a queue that is not listed.", "queue"),
                strangers,
            ),
            "unknown_jobs": _Named(
                registry,
                ("job_unknown", "Due executions of a job that no living daemon knows.", "task"),
                Label(room=_STRANGERS),
            ),
            "stranded": _Named(
                registry,
                ("webhooks_stranded", "Events received, and nobody's work.", "source"),
                Label(sources),
            ),
        }

    def show(self, facts: Facts | None) -> None:
        """None: another daemon shows them, or nobody can."""
        self._shown.set(facts is not None)
        for name, family in self._families.items():
            family.set(None if facts is None else getattr(facts, name))


class _Named:
    """A gauge by one name; what has no number any more is 0, so that its alert ends."""

    def __init__(
        self, registry: CollectorRegistry, words: tuple[str, str, str], label: Label
    ) -> None:
        name, text, by = words
        self._gauge = Gauge(f"taskengine_{name}", text, [by], registry=registry)
        self._label = label
        self.set({})

    def set(self, found: Mapping[str, float] | None) -> None:
        counts = dict.fromkeys(self._learnt(found or ()), 0.0)
        for name, count in (found or {}).items():
            counts[self._label.learn(name)] += count
        for name, count in counts.items():
            self._gauge.labels(name).set(math.nan if found is None else count)

    def _learnt(self, names: Iterable[str]) -> Iterable[str]:
        for name in names:
            self._label.learn(name)
        return self._label.values
