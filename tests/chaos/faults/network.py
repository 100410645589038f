"""The network between daemons and stores: for one store, for one daemon, or for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tests.chaos.faults.base import Fault
from tests.support.proxy import Link


class _OfNetwork(Fault):
    """On links drawn by chance: one store's or both, one daemon's or everybody's."""

    group: ClassVar = "network"
    seconds: ClassVar = (2.0, 8.0)

    async def begin(self) -> None:
        self.links = self.draw()
        for link in self.links:
            await self.strike(link)

    async def end(self) -> None:
        for link in self.links:
            if not link.closed:
                await link.heal()

    async def strike(self, link: Link) -> None:
        raise NotImplementedError

    def draw(self) -> Sequence[Link]:
        store = self.rng.choice(("postgres", "redis"))
        if self.rng.random() < 0.4:
            self.about = f"all to {store}"
            index = 0 if store == "postgres" else 1
            links = [m.links[index] for m in self.cluster.members]
            return [*links, self.cluster.client_links[index]]
        member = self.a_member()
        self.about = f"{member.name} to {store}"
        return [member.postgres if store == "postgres" else member.redis]


class Slow(_OfNetwork):
    kind: ClassVar = "network-slow"

    async def strike(self, link: Link) -> None:
        link.delay(self.rng.uniform(0.02, 0.3))


class Dropped(_OfNetwork):
    kind: ClassVar = "network-reset"
    seconds: ClassVar = (0.1, 0.5)

    async def strike(self, link: Link) -> None:
        link.drop()


class Cut(_OfNetwork):
    kind: ClassVar = "network-cuts-replies"
    seconds: ClassVar = (0.5, 3.0)

    async def strike(self, link: Link) -> None:
        link.cut_replies(self.rng.randint(1, 40))


class RepliesLost(_OfNetwork):
    """What is asked is done, and nobody hears of it."""

    kind: ClassVar = "network-loses-replies"
    seconds: ClassVar = (0.5, 3.0)

    async def strike(self, link: Link) -> None:
        link.lose_replies()


class HalfOpen(_OfNetwork):
    kind: ClassVar = "network-half-open"
    seconds: ClassVar = (3.0, 8.0)

    async def strike(self, link: Link) -> None:
        link.half_open()


class BlackHole(_OfNetwork):
    kind: ClassVar = "network-black-hole"
    seconds: ClassVar = (2.0, 9.0)

    async def strike(self, link: Link) -> None:
        link.black_hole()


class Refused(_OfNetwork):
    kind: ClassVar = "network-refuses"

    async def strike(self, link: Link) -> None:
        await link.refuse()


class Partition(_OfNetwork):
    """One daemon sees neither store, beyond its lease; everybody else goes on."""

    kind: ClassVar = "daemon-cut-off"
    seconds: ClassVar = (5.0, 9.0)

    def draw(self) -> Sequence[Link]:
        return self.a_member().links

    async def strike(self, link: Link) -> None:
        link.black_hole()


KINDS: tuple[type[Fault], ...] = (
    *(Slow, Dropped, Cut, RepliesLost, HalfOpen, BlackHole, Refused, Partition),
)
