"""`taskengine rebuild-delivery`: after a flush, of one queue, as a dry run; and what it refuses."""

from __future__ import annotations

import pytest

from taskengine.lifecycle.rebuild import recall
from tests.cli.conftest import Cli
from tests.support.make import Hands, a_job


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job(), a_job("urgent", queue="high"))


async def _lost(hands: Hands) -> list[int]:
    """Of two queues, none of which Redis knows; in the order of their time."""
    young = (await hands.dispatch()).execution_id
    old = (await hands.dispatch()).execution_id
    await hands.change(old, run_at="sql:now() - interval '1 h'")
    later = (await hands.dispatch(delay=600)).execution_id
    urgent = (await hands.dispatch("urgent")).execution_id
    for key in await hands.redis("KEYS", f"{hands.parts.keys.prefix}:*"):
        await hands.redis("DEL", key)
    return [urgent, old, young, later]


async def test_a_dry_run_says_what_would_be_done_and_touches_nothing(
    hands: Hands, cli: Cli
) -> None:
    await _lost(hands)
    there = (await hands.dispatch(key="there")).execution_id
    result = await cli("rebuild-delivery", "--dry-run")
    assert result.status == 0
    rows = [line.split() for line in result.out.splitlines()[1:]]
    assert rows == [
        ["payroll", "0", "0", "0"],
        ["high", "1", "0", "1"],
        ["default", "3", "1", "3"],
        ["low", "0", "0", "0"],
    ]
    assert "run it for all queues" in result.err
    keys = await hands.redis("KEYS", f"{hands.parts.keys.prefix}:*")
    assert keys == [hands.parts.keys.queue("default").encode()]
    assert await hands.at(there) == "queue"


async def test_all_is_written_anew_in_order_with_counts_and_time(hands: Hands, cli: Cli) -> None:
    *due, later = await _lost(hands)
    result = await cli("rebuild-delivery")
    assert result.status == 0
    rows = [line.split() for line in result.out.splitlines()[1:]]
    assert rows == [["payroll", "0"], ["high", "1"], ["default", "3"], ["low", "0"]]
    assert "4 delivered in 0." in result.err
    assert await hands.reserve() == []  # this daemon learns the new generation first
    await recall(hands.parts)
    assert [each.id for each in await hands.reserve()] == due
    assert await hands.at(later) == "delayed"


async def test_one_queue_is_written_anew_into_what_is_there(hands: Hands, cli: Cli) -> None:
    urgent = (await hands.dispatch("urgent")).execution_id
    mine = (await hands.dispatch()).execution_id
    for name in ("high", "default"):
        await hands.redis("DEL", hands.parts.keys.queue(name))
    generation = hands.parts.memory.generation
    result = await cli("rebuild-delivery", "--queue", "default", "--json")
    assert result.object.pop("seconds") < 10
    assert result.object["queues"] == [
        {"queue": "default", "delivered": 1, "due": None, "delayed": None, "missing": None}
    ]
    assert (result.object["dry_run"], result.object["remembers"]) == (False, True)
    assert (await hands.at(mine), await hands.at(urgent)) == ("queue", None)
    assert (await hands.parts.epoch.read()).generation == generation


async def test_a_key_of_a_wrong_type_is_seen_through_and_replaced(hands: Hands, cli: Cli) -> None:
    mine = (await hands.dispatch()).execution_id
    key = hands.parts.keys.queue("default")
    await hands.redis("DEL", key)
    await hands.redis("SET", key, "a string")
    dry = await cli("rebuild-delivery", "--queue", "default", "--dry-run", "--json")
    assert dry.object["queues"][0]["missing"] == 1
    assert (await cli("rebuild-delivery", "--queue", "default")).status == 0
    assert await hands.at(mine) == "queue"


@pytest.mark.parametrize("more", [(), ("--queue", "default"), ("--dry-run",)])
async def test_another_databases_redis_is_refused(
    hands: Hands, cli: Cli, more: tuple[str, ...]
) -> None:
    await hands.redis("HSET", hands.parts.keys.epoch, "identity", "another")
    before = await hands.redis("HGETALL", hands.parts.keys.epoch)
    result = await cli("rebuild-delivery", *more)
    assert (result.status, result.out) == (78, "")
    assert "another database" in result.err
    assert await hands.redis("HGETALL", hands.parts.keys.epoch) == before


async def test_a_queue_that_is_not_listed_and_a_redis_that_is_away(
    hands: Hands, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await cli("rebuild-delivery", "--queue", "defualt")
    assert result.status == 3
    assert "did you mean 'default'" in result.err
    monkeypatch.setenv("TASKENGINE_REDIS__URL", "redis://127.0.0.1:1/0")
    assert (await cli("rebuild-delivery")).status == 5
