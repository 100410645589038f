"""Exclusive keys by hand: one turn of the worker, one end, one sweep, and what they leave."""

from __future__ import annotations

from typing import Any

from taskengine.model.execution import Claim
from taskengine.model.outcome import Outcome
from taskengine.services.deliveries import Deliveries
from tests.support.make import SUCCEEDED, Hands

KEY = "employee:7"


async def send(hands: Hands, name: str = "work", **more: Any) -> int:
    return (await hands.dispatch(name, exclusive_key=KEY, **more)).execution_id


async def turn(hands: Hands, n: int = 100) -> list[Claim]:
    """One turn of the worker, by hand: what it claims; the rest is put away."""
    reserved = await hands.reserve(n)
    claims = await hands.crew.acquirer.claim(reserved, hands.worker_id)
    await hands.ack(*claims)
    await hands.crew.acquirer.put_away(reserved, claims)
    return claims


async def end(hands: Hands, claim: Claim, outcome: Outcome = SUCCEEDED) -> None:
    """The flight's end by the settler, and all that it does."""
    flight = hands.flight(claim)
    async with hands.settling():
        hands.crew.settler.put(flight, outcome)


async def marked(hands: Hands) -> list[int]:
    rows = await hands.sql("select id from task_executions where waits_for_key order by id")
    return [row["id"] for row in rows]


async def three(hands: Hands) -> tuple[Claim, int, int]:
    """One holds the key, two wait, marked, without a message."""
    ids = [await send(hands) for _ in range(3)]
    (holder,) = await turn(hands)
    assert holder.id == ids[0]
    assert await marked(hands) == ids[1:]
    assert [await hands.at(each) for each in ids] == [None] * 3
    return holder, ids[1], ids[2]


async def sweep(hands: Hands) -> None:
    """One turn of the delivery sweep."""
    await Deliveries(hands.parts, hands.identity, hands.token).tick()
