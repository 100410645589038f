"""What every kind of fault is: a name, a group, how long it lasts, `begin` and `end`."""

from __future__ import annotations

import random
from typing import ClassVar

from tests.chaos.cluster import Cluster, Member
from tests.chaos.plan import Card


class Fault:
    """One fault of one step. `end` may be repeated, and must leave nothing behind."""

    kind: ClassVar[str]
    group: ClassVar[str]
    seconds: ClassVar[tuple[float, float]]

    def __init__(self, cluster: Cluster, rng: random.Random, seconds: float) -> None:
        self.cluster = cluster
        self.rng = rng
        self.length = seconds
        self.about = ""  # details for the report

    @classmethod
    def card(cls) -> Card:
        return Card(cls.kind, cls.group, cls.seconds)

    async def begin(self) -> None:
        raise NotImplementedError

    async def end(self) -> None:
        """Nothing, where the fault was over at once."""

    def a_member(self) -> Member:
        """One of the daemons that run, or any where none does."""
        running = list(self.cluster.running()) or self.cluster.members
        member = self.rng.choice(running)
        self.about = member.name
        return member
