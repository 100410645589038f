"""Situations planted on real stores: how they are noted, and how they are checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from taskengine.insight import why
from taskengine.insight.why import Explanation
from taskengine.model.execution import Claim
from taskengine.model.outcome import Outcome
from tests.insight.doctor_ward import Ward

Plant = Callable[[Ward], Awaitable[int]]


class Planted(NamedTuple):
    """A situation: its code, what its headline and the next step hold."""

    code: str
    plant: Plant
    words: str
    step: str


class Situations(list[Planted]):
    """Those of a module, in their order."""

    def case(self, code: str, words: str, step: str = "") -> Callable[[Plant], Plant]:
        def add(plant: Plant) -> Plant:
            self.append(Planted(code, plant, words, step))
            return plant

        return add


def name_of(planted: Planted) -> str:
    return planted.plant.__name__


async def check(ward: Ward, planted: Planted) -> None:
    """Its daemon is not silent, however slow the test is."""
    await ward.beat_on()
    found = await told(ward, await planted.plant(ward))
    assert found.code == planted.code, found
    assert planted.words in found.headline
    assert planted.step in " ".join(found.steps)
    assert found.lines


async def told(ward: Ward, execution_id: int) -> Explanation:
    return why.explain(await why.read(ward.parts, execution_id))


async def due(ward: Ward, key: str = "k") -> int:
    return (await ward.dispatch(key=key)).execution_id


async def failing(ward: Ward, outcome: Outcome, **columns: Any) -> Claim:
    claim = await ward.running(**columns)
    await ward.deliver(await ward.settle(claim, outcome))
    return claim
