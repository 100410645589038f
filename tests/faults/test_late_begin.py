"""A process that stood still between its claim and the body's first line begins nothing: by then the
row may be another's."""

from __future__ import annotations

from typing import Any

import pytest

from taskengine.lifecycle.fetch import Fetcher
from taskengine.runtime.clock import SystemClock
from tests.support.make import Hands, a_job, settled_by
from tests.support.until import until


class StoodStill(SystemClock):
    """The same clock, after longer than a lease."""

    __slots__ = ()

    def monotonic(self) -> float:
        return super().monotonic() + 3600


class Bodies:
    """How many have begun."""

    def __init__(self) -> None:
        self.begun = 0

    async def coroutine(self, ctx: Any) -> None:
        self.begun += 1

    def function(self, ctx: Any) -> None:
        self.begun += 1


@pytest.mark.parametrize("kind", ["coroutine", "function"])
async def test_what_was_claimed_before_is_released_unbegun_and_uses_no_attempt(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    bodies = Bodies()
    await hands.know(a_job("work", getattr(bodies, kind)))
    sent = await hands.dispatch()
    with monkeypatch.context() as patch:
        patch.setattr(hands.crew.pilot, "_clock", StoodStill())
        async with hands.settling():
            await Fetcher(hands.crew).turn()
            await until(lambda: not len(hands.crew.inflight))
    row = await hands.row(sent.execution_id)
    assert (row["state"], row["attempt"], row["interruptions"]) == ("pending", 1, 0)
    assert bodies.begun == 0
    assert [each["reason"] for each in await hands.sql("select reason from task_attempts")] == [
        "begun too late"
    ]
    assert await hands.at(sent.execution_id) == "queue"
    async with hands.working():
        await settled_by(hands, "work")
    assert bodies.begun == 1


async def test_what_another_one_has_by_now_is_not_touched(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = Bodies()
    await hands.know(a_job("work", bodies.coroutine))
    sent = await hands.dispatch()
    monkeypatch.setattr(hands.crew.pilot, "_clock", StoodStill())
    fetcher = Fetcher(hands.crew)
    events = hands.crew.acquirer.events

    async def meanwhile(claims: Any) -> Any:
        await hands.sql("update task_executions set claim_token = 7, fence = fence + 1")
        return await events(claims)

    monkeypatch.setattr(hands.crew.acquirer, "events", meanwhile)
    async with hands.settling():
        await fetcher.turn()
        await until(lambda: not len(hands.crew.inflight))
    row = await hands.row(sent.execution_id)
    assert (row["state"], row["claim_token"], row["fence"]) == ("running", 7, 2)
    assert bodies.begun == 0
