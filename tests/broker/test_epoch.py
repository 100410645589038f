"""The page on "When Redis has lost or changed its memory": the epoch, the rebuild, the comparison."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from taskengine.embedded import Servers
from taskengine.errors import BrokerUnavailable, WrongDatabase
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.parts import Parts, close_parts, open_parts
from taskengine.lifecycle.rebuild import rebuild, recall, remember
from taskengine.model.execution import Delivery
from taskengine.services.divergence import Divergence
from tests.support.make import Hands, Spare, Told, a_job
from tests.support.until import until


@pytest.fixture
def servers(spare: Spare) -> Servers:
    """A Redis that may be flushed, stopped and restored."""
    return spare.servers


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job(), a_job("urgent", queue="high"))


def divergence(hands: Hands) -> Divergence:
    return Divergence(hands.parts, hands.identity, hands.token)


async def epoch(parts: Parts) -> dict[str, str]:
    flat = await parts.client.command("HGETALL", parts.keys.epoch)
    return {k.decode(): v.decode() for k, v in flat.items()}


async def pushes(hands: Hands, count: int = 3) -> list[int]:
    """Pending rows, never delivered."""
    return [(await hands.insert(key=f"{n}")).id for n in range(count)]


# ---- how it shows --------------------------------------------------------------------------------


async def test_epoch_good_nothing_is_rebuilt(hands: Hands) -> None:
    before = await epoch(hands.parts)
    await pushes(hands)
    assert await remember(hands.parts) is None
    assert await epoch(hands.parts) == before
    assert await hands.reserve() == []


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("DEL", "{}"), id="missing"),
        pytest.param(("HDEL", "{}", "generation"), id="generation missing"),
        pytest.param(("HSET", "{}", "generation", 0), id="of a lower generation"),
        pytest.param(("HSET", "{}", "run_id", "0123abc"), id="another run_id"),
    ],
)
async def test_epoch_bad_everything_is_delivered_anew_under_the_next_generation(
    hands: Hands, words: Sequence[Any]
) -> None:
    generation = hands.parts.memory.generation
    ids = await pushes(hands)
    await hands.redis(*(str(word).format(hands.parts.keys.epoch) for word in words))
    await divergence(hands).tick()
    assert hands.parts.memory.generation == generation + 1
    assert (await epoch(hands.parts))["generation"] == str(generation + 1)
    assert [r.id for r in await hands.reserve()] == ids


async def test_epoch_of_another_databases_identity_is_refused_and_left_alone(
    hands: Hands,
) -> None:
    await hands.redis("HSET", hands.parts.keys.epoch, "identity", "somebody-else")
    before = await epoch(hands.parts)
    await pushes(hands)
    for attempt in (recall, remember):
        with pytest.raises(WrongDatabase, match="prefix"):
            await attempt(hands.parts)
    with pytest.raises(WrongDatabase):
        await divergence(hands).tick()
    assert await epoch(hands.parts) == before
    assert await hands.redis("ZCARD", hands.parts.keys.queue("default")) == 0


async def test_epoch_bad_at_a_reserve_has_the_divergence_loop_nudged(hands: Hands) -> None:
    loop = divergence(hands)
    await hands.redis("DEL", hands.parts.keys.epoch)
    assert await hands.reserve() == []
    assert loop._nudged.is_set()


# ---- the rebuild ---------------------------------------------------------------------------------


async def test_rebuild_pushes_what_is_due_oldest_first_and_delays_the_rest(hands: Hands) -> None:
    young, old = await pushes(hands, 2)
    await hands.change(old, run_at="sql:now() - interval '1 h'")
    later = await hands.insert(key="later", delay=3600.0)
    urgent = await hands.insert("urgent")
    rebuilt = await rebuild(hands.parts)
    assert rebuilt.queues == {"payroll": 0, "high": 1, "default": 3, "low": 0}
    assert [r.id for r in await hands.reserve()] == [urgent.id, old, young]
    assert await hands.at(later.id) == "delayed"


async def test_rebuild_of_more_than_a_batch(hands: Hands) -> None:
    await hands.sql(
        "insert into task_executions (job, queue, idempotency_key, run_at)"
        " select 'work', 'default', 'k' || n, now() - n * interval '1 s' from generate_series(1, 2500) n"
    )
    assert (await rebuild(hands.parts)).total == 2500
    assert await hands.redis("ZCARD", hands.parts.keys.queue("default")) == 2500
    newest = await hands.sql("select id from task_executions order by run_at")
    assert [r.id for r in await hands.reserve(3)] == [row["id"] for row in newest[:3]]


async def test_rebuild_leaves_out_what_is_claimed_ended_or_waits_for_a_key(hands: Hands) -> None:
    running, ended = await hands.running(), await hands.running()
    await hands.settle(ended)
    waiter = await hands.insert(key="waiter")
    await hands.change(waiter.id, waits_for_key=True)
    assert (await rebuild(hands.parts)).total == 0
    assert [await hands.at(i) for i in (running.id, ended.id, waiter.id)] == [None] * 3


async def test_rebuild_empties_processing_and_delivers_what_was_in_it(hands: Hands) -> None:
    sent = await hands.dispatch()
    await hands.reserve()
    await rebuild(hands.parts)
    assert await hands.at(sent.execution_id) == "queue"


async def test_rebuild_under_way_nothing_can_be_reserved(hands: Hands) -> None:
    await hands.dispatch()
    await hands.parts.epoch.begin("somebody's token", hands.parts.queues.names)
    assert await hands.reserve() == []
    seen = await recall(hands.parts)
    assert seen.rebuild_token == "somebody's token"
    assert not seen.is_good(seen.identity, hands.parts.memory.generation)


async def test_rebuild_overtaken_by_another_starts_over(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation = hands.parts.memory.generation
    ids = await pushes(hands)
    push, overtaken = hands.parts.queues.push, iter([True])

    async def push_and_be_overtaken(deliveries: Sequence[Delivery]) -> int:
        if next(overtaken, False):
            await hands.parts.epoch.begin("another's", hands.parts.queues.names)
        return await push(deliveries)

    monkeypatch.setattr(hands.parts.queues, "push", push_and_be_overtaken)
    await rebuild(hands.parts)
    assert hands.parts.memory.generation == generation + 2
    assert [r.id for r in await hands.reserve()] == ids


async def test_rebuild_overtaken_every_time_gives_up_as_away_and_is_tried_again(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await pushes(hands)
    push = hands.parts.queues.push

    async def push_and_be_overtaken(deliveries: Sequence[Delivery]) -> int:
        await hands.parts.epoch.begin("another's", hands.parts.queues.names)
        return await push(deliveries)

    with monkeypatch.context() as changed:
        changed.setattr(hands.parts.queues, "push", push_and_be_overtaken)
        with pytest.raises(BrokerUnavailable):
            await rebuild(hands.parts)
    assert await hands.reserve() == []
    await divergence(hands).tick()
    assert [r.id for r in await hands.reserve()] == ids


async def test_rebuild_is_sealed_only_on_the_server_that_it_began_on(hands: Hands) -> None:
    parts = hands.parts
    run_id = await parts.epoch.begin("mine", parts.queues.names)
    assert not await parts.epoch.seal("mine", "another run_id", "identity", 9)
    assert not await parts.epoch.seal("not mine", run_id, "identity", 9)
    assert await parts.epoch.seal("mine", run_id, "identity", 9)
    assert await epoch(parts) == {"identity": "identity", "generation": "9", "run_id": run_id}


async def test_rebuild_and_dispatches_at_once_lose_and_double_nothing(hands: Hands) -> None:
    ids = await pushes(hands, 50)
    rebuilding = asyncio.create_task(rebuild(hands.parts))
    answers = await asyncio.gather(*(hands.dispatch(key=f"new {n}") for n in range(50)))
    await rebuilding
    sent = [answer.execution_id for answer in answers]
    assert sorted(r.id for r in await hands.reserve(1000)) == sorted(ids + sent)


async def test_rebuild_is_done_by_one_daemon_and_learned_by_the_others(hands: Hands) -> None:
    ids = await pushes(hands)
    await hands.redis("DEL", hands.parts.keys.epoch)
    mine = hands.parts
    theirs = await open_parts(mine.config, mine.registry, mine.clock, mine.rng, "other")
    other = Hands(theirs, "other")
    try:
        await divergence(hands).tick()
        assert theirs.memory.generation == -1
        await divergence(other).tick()
        assert theirs.memory.generation == mine.memory.generation
        assert sorted(r.id for r in await other.reserve()) == ids
    finally:
        await close_parts(theirs)


# ---- what happens to a Redis ---------------------------------------------------------------------


async def test_flushall_everything_is_back_and_runs_once(hands: Hands) -> None:
    ids = sorted([(await hands.dispatch()).execution_id for _ in range(5)])
    held = await hands.reserve(2)
    await hands.redis("FLUSHALL")
    await divergence(hands).tick()
    assert sorted(r.id for r in await hands.reserve()) == ids
    claims = await hands.claim(*ids)
    late = await hands.claim(*(r.id for r in held))
    assert (len(claims), late) == (5, [])


async def test_one_key_deleted_only_its_queue_is_written_anew(hands: Hands, told: Told) -> None:
    high = [(await hands.dispatch("urgent")).execution_id for _ in range(2)]
    default = [(await hands.dispatch()).execution_id for _ in range(3)]
    await hands.redis("DEL", hands.parts.keys.queue("default"))
    await hands.sql("update task_executions set created_at = now() - interval '16 s'")
    before = await epoch(hands.parts)
    await divergence(hands).tick()
    assert [(e["queue"], e["count"]) for e in told.of("delivery.diverged")] == [("default", 3)]
    assert await epoch(hands.parts) == before
    assert [r.id for r in await hands.reserve()] == high + default


async def test_redis_restarted_with_its_file_is_another_run_and_rebuilt(
    hands: Hands, spare: Spare
) -> None:
    sent = await hands.dispatch()
    before = (await hands.parts.epoch.read()).run_id
    await asyncio.to_thread(spare.embedded.restart_redis)
    await back(hands)
    assert (await hands.parts.epoch.read()).run_id != before
    await divergence(hands).tick()
    assert [r.id for r in await hands.reserve()] == [sent.execution_id]


async def test_redis_restarted_from_an_older_file_gives_up_nothing_false(
    hands: Hands, spare: Spare, tmp_path: Path
) -> None:
    """Yesterday's file: a message of what has ended since, none of what came since."""
    ended = (await hands.dispatch()).execution_id
    valkey = spare.embedded.valkey
    await asyncio.to_thread(valkey.stop)
    shutil.copytree(valkey.data, tmp_path / "yesterday")
    await asyncio.to_thread(valkey.start)
    await back(hands)
    await divergence(hands).tick()
    claim = await hands.take(ended)
    await hands.settle(claim)
    since = (await hands.dispatch()).execution_id

    await asyncio.to_thread(valkey.stop)
    shutil.rmtree(valkey.data)
    valkey.place.account.make(valkey.data)
    for each in (tmp_path / "yesterday").rglob("*"):
        target = valkey.data / each.relative_to(tmp_path / "yesterday")
        target.mkdir() if each.is_dir() else target.write_bytes(each.read_bytes())
    for each in valkey.data.rglob("*"):
        shutil.chown(each, valkey.data.owner(), valkey.data.group())
    await asyncio.to_thread(valkey.start)
    await back(hands)
    assert await hands.at(ended) == "queue"
    assert await hands.reserve() == []
    await divergence(hands).tick()
    reserved = await hands.reserve()
    assert sorted(r.id for r in reserved) == [ended, since]
    claims = await hands.claim(*(r.id for r in reserved))
    assert [c.id for c in claims] == [since]


async def back(hands: Hands) -> None:
    """Until the client has found the new server (its old connections are broken once each)."""

    async def answers() -> bool:
        try:
            return bool(await hands.redis("PING"))
        except BrokerUnavailable:
            return False

    await until(answers)


async def test_a_delivery_to_a_redis_that_forgot_is_no_error(hands: Hands) -> None:
    made = await hands.insert()
    await hands.redis("FLUSHALL")
    assert await deliver(hands.parts, [made])
