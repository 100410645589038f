"""Which fault when: drawn from the seed alone, so that a seed replays the same plan.

The lanes draw from one shuffled deck: with two of them faults overlap two at a time, every kind
comes before any comes twice, and two faults of one group (both about the Redis server, say) never meet.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_FIRST = 4.0
_QUIET_END = 6.0


@dataclass(frozen=True)
class Step:
    """One fault: from `at` for `seconds`; `seed` draws its details."""

    number: int
    at: float
    seconds: float
    kind: str
    group: str
    seed: int

    @property
    def end(self) -> float:
        return self.at + self.seconds

    def __str__(self) -> str:
        return f"{self.number:4d}  {self.at:7.1f} s  for {self.seconds:4.1f} s  {self.kind}"


@dataclass(frozen=True)
class Card:
    """A kind of fault: what it is about, and how long it lasts."""

    kind: str
    group: str
    seconds: tuple[float, float]


@dataclass(frozen=True)
class Rhythm:
    """How many faults at a time, and how many seconds from the end of one to the next."""

    lanes: int = 2
    gap: tuple[float, float] = (1.0, 4.0)


def plan(
    seed: int, length: float, cards: Sequence[Card], rhythm: Rhythm | None = None
) -> list[Step]:
    """The steps of `length` seconds, by their time."""
    rng, rhythm = random.Random(seed), rhythm or Rhythm()
    free = {lane: _FIRST + 2.0 * lane for lane in range(rhythm.lanes)}
    busy: dict[str, float] = {}
    steps: list[Step] = []
    deck: list[Card] = []
    while free:
        lane = min(free, key=lambda each: free[each])
        at = free[lane]
        if not deck:
            deck = rng.sample(list(cards), len(cards))
        card = _take(deck, busy, at)
        if card is None:
            free[lane] = at + 0.5
        else:
            seconds = round(rng.uniform(*card.seconds), 1)
            number = len(steps) + 1
            steps.append(
                Step(number, round(at, 1), seconds, card.kind, card.group, rng.getrandbits(32))
            )
            busy[card.group] = at + seconds
            free[lane] = at + seconds + rng.uniform(*rhythm.gap)
        if free[lane] > length - _QUIET_END:
            del free[lane]
    return [step for step in steps if step.end <= length - 1.0]


def _take(deck: list[Card], busy: Mapping[str, float], at: float) -> Card | None:
    """The first card whose group nobody is at."""
    for card in deck:
        if busy.get(card.group, 0.0) <= at:
            deck.remove(card)
            return card
    return None
