"""Daemons die, stand still, are deployed anew, come and go."""

from __future__ import annotations

import asyncio
from signal import SIGCONT, SIGSTOP, SIGTERM
from typing import ClassVar

from tests.chaos.cluster import Member
from tests.chaos.faults.base import Fault


class _OfDaemons(Fault):
    group: ClassVar = "daemons"

    async def begin(self) -> None:
        self.member = self.a_member()
        await self.strike(self.member)

    async def strike(self, member: Member) -> None:
        raise NotImplementedError


class Kill(_OfDaemons):
    """SIGKILL; it is away for a while."""

    kind: ClassVar = "sigkill"
    seconds: ClassVar = (0.5, 6.0)

    async def strike(self, member: Member) -> None:
        await member.kill()

    async def end(self) -> None:
        if not self.member.process.runs:
            self.member.start()


class KillAll(Fault):
    """SIGKILL to all at once: whoever comes first finds nobody."""

    kind: ClassVar = "sigkill-all"
    group: ClassVar = "daemons"
    seconds: ClassVar = (0.2, 3.0)

    async def begin(self) -> None:
        await asyncio.gather(*(member.kill() for member in self.cluster.members))

    async def end(self) -> None:
        for member in self.cluster.members:
            if not member.process.runs:
                member.start()


class Freeze(_OfDaemons):
    """SIGSTOP beyond the lease, then SIGCONT: it believes that it is alive."""

    kind: ClassVar = "sigstop"
    seconds: ClassVar = (6.0, 9.0)

    async def strike(self, member: Member) -> None:
        member.signal(SIGSTOP)

    async def end(self) -> None:
        self.member.signal(SIGCONT)


class FreezeAll(Fault):
    """The machine sleeps: all stand still beyond the lease, and wake at once."""

    kind: ClassVar = "sigstop-all"
    group: ClassVar = "daemons"
    seconds: ClassVar = (5.0, 7.0)

    async def begin(self) -> None:
        for member in self.cluster.members:
            member.signal(SIGSTOP)

    async def end(self) -> None:
        for member in self.cluster.members:
            member.signal(SIGCONT)


class ShortBlock(_OfDaemons):
    """The event loop stands still beyond the lease; the heart beats on in its thread."""

    kind: ClassVar = "loop-blocked"
    seconds: ClassVar = (5.0, 7.0)

    async def strike(self, member: Member) -> None:
        await member.tell("block", self.length)


class LongBlock(_OfDaemons):
    """So long that its heart stops, too: it is declared dead while its bodies still hold claims."""

    kind: ClassVar = "loop-blocked-long"
    seconds: ClassVar = (17.0, 20.0)

    async def strike(self, member: Member) -> None:
        await member.tell("block", self.length)


class PoolExhausted(_OfDaemons):
    """A careless job holds every connection of the engine's pool."""

    kind: ClassVar = "pool-exhausted"
    seconds: ClassVar = (6.0, 9.0)

    async def strike(self, member: Member) -> None:
        await member.tell("exhaust", self.length)


class Deploy(Fault):
    """SIGTERM and a start, one daemon after the other."""

    kind: ClassVar = "rolling-deploy"
    group: ClassVar = "daemons"
    seconds: ClassVar = (1.0, 1.0)

    async def begin(self) -> None:
        for member in self.cluster.members:
            if member.process.runs:
                await member.stop()
            member.start()
            await asyncio.sleep(1.0)


class Hurry(_OfDaemons):
    """SIGTERM twice: bodies are cut short."""

    kind: ClassVar = "sigterm-twice"
    seconds: ClassVar = (1.0, 3.0)

    async def strike(self, member: Member) -> None:
        member.wanted = False
        member.signal(SIGTERM)
        await asyncio.sleep(0.3)
        member.signal(SIGTERM)

    async def end(self) -> None:
        await self.member.stop()
        self.member.start()


class _Guest(Fault):
    """One more daemon for a while, gone without a goodbye."""

    group: ClassVar = "guests"
    seconds: ClassVar = (8.0, 14.0)
    knows_all: ClassVar = True
    _numbers: ClassVar[int] = 0

    async def begin(self) -> None:
        type(self)._numbers += 1
        self.about = f"{self.kind}-{self._numbers}"
        self.member = await self.cluster.add(self.about, knows_all=self.knows_all)
        self.cluster.members.append(self.member)
        self.member.start()

    async def end(self) -> None:
        await self.member.kill()
        if self.member in self.cluster.members:
            self.cluster.members.remove(self.member)
        for link in self.member.links:
            await link.close()


class Newcomer(_Guest):
    """A second scheduler, and a worker that leaves by SIGKILL."""

    kind: ClassVar = "newcomer"


class Stranger(_Guest):
    """A daemon of an older release: it does not know all jobs."""

    kind: ClassVar = "stranger"
    knows_all: ClassVar = False


KINDS: tuple[type[Fault], ...] = (
    *(Kill, KillAll, Freeze, FreezeAll, ShortBlock, LongBlock, PoolExhausted, Deploy, Hurry),
    *(Newcomer, Stranger),
)
