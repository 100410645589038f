"""The steps and the keys of "Redis: what is in it, and why it can be lost", one test or more each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from taskengine.broker.client import SCRIPTS
from taskengine.broker.keys import Keys
from taskengine.broker.lock import Lock
from taskengine.broker.queue import BATCH, BadEpoch, Queues
from taskengine.broker.wake import Wake, publish
from taskengine.lifecycle.parts import Parts
from taskengine.model.execution import Delivery, Reservation
from tests.support.make import Told
from tests.support.until import until

Q, HIGH, LOW = "default", "high", "low"


class Redis:
    """The queues of one test, and what is in them."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.queues: Queues = parts.queues
        self.keys: Keys = parts.keys

    async def do(self, *words: object) -> object:
        return await self.parts.client.command(*words)

    async def push(self, *ids: int, queue: str = Q, score: int | None = None) -> int:
        rows = [Delivery(i, queue, i if score is None else score, True) for i in ids]
        return await self.queues.push(rows)

    async def delay(self, *ids: int, score: int, queue: str = Q) -> None:
        await self.queues.delay([Delivery(i, queue, score, False) for i in ids])

    async def reserve(self, n: int = 100, *limits: tuple[str, int]) -> list[Reservation]:
        generation = self.parts.memory.generation
        return await self.queues.reserve(limits or [(Q, n)], n, generation)

    async def ids(self, key: str) -> list[int]:
        members = await self.parts.client.command("ZRANGE", key, 0, -1)
        return [int(member) for member in members]

    async def waiting(self, queue: str = Q) -> list[int]:
        return await self.ids(self.keys.queue(queue))

    async def processing(self, queue: str = Q) -> list[int]:
        return await self.ids(self.keys.processing(queue))

    async def delayed(self, queue: str = Q) -> list[int]:
        return await self.ids(self.keys.delayed(queue))

    async def score(self, key: str, id_: int) -> float:
        return float(await self.parts.client.command("ZSCORE", key, id_))

    async def age(self, *ids: int) -> None:
        for each in ids:
            await self.do("ZADD", self.keys.processing(Q), 1, each)


@pytest.fixture
def redis(parts: Parts) -> Redis:
    return Redis(parts)


@pytest_asyncio.fixture
async def heard(redis: Redis) -> AsyncIterator[list[str]]:
    """The wake-ups: the queue's name, or "" for "all of them"."""
    heard: list[str] = []
    wake = Wake(redis.parts.config.redis, redis.keys.wake)
    task = asyncio.create_task(wake.listen(heard.append))
    await until(lambda: heard == [""])
    heard.clear()
    yield heard
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def and_nothing_more(redis: Redis, heard: list[str]) -> list[str]:
    """What was heard until a wake-up of our own came through."""
    await publish(redis.parts.client, redis.keys.wake, "end")
    await until(lambda: heard[-1:] == ["end"])
    return heard[:-1]


# ---- the keys ------------------------------------------------------------------------------------


async def test_keys_are_those_of_the_page_and_no_others(redis: Redis) -> None:
    await redis.push(1, 2)
    await redis.reserve(1)
    await redis.delay(3, score=10**16)
    await Lock(redis.parts.client, redis.keys.scheduler_lock, "me", 5.0).hold()
    p = redis.keys.prefix
    found = await redis.parts.client.command("KEYS", f"{p}:*")
    types = {
        key.decode(): (await redis.parts.client.command("TYPE", key)).decode() for key in found
    }
    assert types == {
        f"{p}:queue:default": "zset",
        f"{p}:processing:default": "zset",
        f"{p}:delayed:default": "zset",
        f"{p}:epoch": "hash",
        f"{p}:scheduler:lock": "string",
    }


async def test_key_queue_is_scored_by_run_at_so_the_oldest_comes_first(redis: Redis) -> None:
    run_at = 1_793_620_800_123_456
    await redis.push(1, score=run_at + 1)
    await redis.push(2, score=run_at)
    assert await redis.waiting() == [2, 1]
    assert await redis.score(redis.keys.queue(Q), 2) == run_at  # to the µs


async def test_key_processing_is_scored_by_the_servers_time(redis: Redis) -> None:
    await redis.push(1)
    await redis.reserve()
    seconds, micros = await redis.parts.client.command("TIME")
    now = int(seconds) * 1_000_000 + int(micros)
    assert 0 <= now - await redis.score(redis.keys.processing(Q), 1) < 60_000_000


async def test_key_epoch_holds_identity_generation_and_run_id(redis: Redis) -> None:
    seen = await redis.parts.epoch.read()
    assert seen.identity == redis.parts.memory.identity
    assert seen.generation == redis.parts.memory.generation
    assert seen.sealed_run_id == seen.run_id != ""
    assert seen.rebuild_token == ""


async def test_key_scheduler_lock_is_held_renewed_and_released_by_token_only(redis: Redis) -> None:
    key = redis.keys.scheduler_lock
    mine = Lock(redis.parts.client, key, "mine", 5.0)
    other = Lock(redis.parts.client, key, "other", 5.0)
    assert await mine.hold()
    assert await mine.hold()  # renewed
    assert not await other.hold()
    await other.release()
    assert not await other.hold()
    await mine.release()
    assert await other.hold()
    assert 0 < int(await redis.parts.client.command("PTTL", key)) <= 5000


async def test_key_wake_is_heard_as_the_queues_name(redis: Redis, heard: list[str]) -> None:
    await redis.push(1)
    assert await and_nothing_more(redis, heard) == [Q]


# ---- push ----------------------------------------------------------------------------------------


async def test_push_twice_is_one_entry_and_the_first_score_stays(redis: Redis) -> None:
    assert await redis.push(1, score=5) == 1
    assert await redis.push(1, score=9) == 0
    assert await redis.waiting() == [1]
    assert await redis.score(redis.keys.queue(Q), 1) == 5


async def test_push_never_looks_at_processing(redis: Redis) -> None:
    await redis.push(1)
    await redis.reserve()
    assert await redis.push(1) == 1
    assert await redis.waiting() == await redis.processing() == [1]


async def test_push_takes_it_out_of_delayed(redis: Redis) -> None:
    await redis.delay(1, 2, score=10**16)
    await redis.push(1)
    assert await redis.delayed() == [2]
    assert await redis.waiting() == [1]


async def test_push_wakes_only_if_the_queue_was_empty(redis: Redis, heard: list[str]) -> None:
    await redis.push(1, 2)
    await redis.push(3)
    await redis.push(4, queue=HIGH)
    assert await and_nothing_more(redis, heard) == [Q, HIGH]


async def test_push_of_more_than_a_batch_goes_in_several_scripts(redis: Redis) -> None:
    count = 2 * BATCH + 1
    assert await redis.push(*range(1, count + 1)) == count
    assert await redis.waiting() == list(range(1, count + 1))


async def test_push_of_several_queues_at_once_goes_to_each(redis: Redis) -> None:
    rows = [Delivery(1, Q, 1, True), Delivery(2, HIGH, 1, True), Delivery(3, Q, 2, True)]
    assert await redis.queues.push(rows) == 3
    assert (await redis.waiting(), await redis.waiting(HIGH)) == ([1, 3], [2])


async def test_push_of_nothing_does_nothing(redis: Redis) -> None:
    assert await redis.queues.push([]) == 0


# ---- reserve -------------------------------------------------------------------------------------


async def test_reserve_moves_the_first_ones_into_processing(redis: Redis) -> None:
    await redis.push(3, 1, 2)
    assert await redis.reserve(2) == [Reservation(1, Q), Reservation(2, Q)]
    assert (await redis.waiting(), await redis.processing()) == ([3], [1, 2])


async def test_reserve_goes_over_the_queues_in_their_order(redis: Redis) -> None:
    await redis.push(1, 2, queue=LOW, score=1)
    await redis.push(3, 4, queue=HIGH, score=9)
    got = await redis.reserve(3, (HIGH, 3), (LOW, 3))
    assert got == [Reservation(3, HIGH), Reservation(4, HIGH), Reservation(1, LOW)]


async def test_reserve_takes_from_each_queue_at_most_its_limit(redis: Redis) -> None:
    await redis.push(1, 2, 3, queue=HIGH)
    await redis.push(4, 5, 6, queue=LOW)
    got = await redis.reserve(10, (HIGH, 1), (LOW, 2))
    assert [r.id for r in got] == [1, 4, 5]


async def test_reserve_from_empty_queues_gives_nothing(redis: Redis) -> None:
    assert await redis.reserve(5, (HIGH, 5), (LOW, 5)) == []


async def test_reserve_under_another_generation_is_a_bad_epoch_and_takes_nothing(
    redis: Redis,
) -> None:
    await redis.push(1)
    with pytest.raises(BadEpoch):
        await redis.queues.reserve([(Q, 1)], 1, redis.parts.memory.generation + 1)
    await redis.do("DEL", redis.keys.epoch)
    with pytest.raises(BadEpoch):
        await redis.reserve()
    assert (await redis.waiting(), await redis.processing()) == ([1], [])


@pytest.mark.parametrize(
    "foreign", ["abc", "", "1.5", "-7", " 8", "9_9", "007", "9" * 20, "9" * 400, "１２"]
)
async def test_reserve_drops_what_is_no_id_of_ours_and_counts_it(
    redis: Redis, told: Told, foreign: str
) -> None:
    await redis.push(1, 2)
    await redis.do("ZADD", redis.keys.queue(Q), 0, foreign)
    assert [r.id for r in await redis.reserve()] == [1, 2]
    assert [(e["queue"], e["count"]) for e in told.of("queue.foreign_dropped")] == [(Q, 1)]
    assert await redis.processing() == [1, 2]


# ---- ack -----------------------------------------------------------------------------------------


async def test_ack_takes_it_out_of_processing_and_only_there(redis: Redis) -> None:
    await redis.push(1, 2)
    reserved = await redis.reserve()
    await redis.push(1)
    await redis.queues.ack(reserved[:1])
    assert (await redis.processing(), await redis.waiting()) == ([2], [1])
    await redis.queues.ack([])
    await redis.queues.ack(reserved)
    assert await redis.processing() == []


# ---- delay ---------------------------------------------------------------------------------------


async def test_delay_moves_it_out_of_processing(redis: Redis) -> None:
    await redis.push(1)
    await redis.reserve()
    await redis.delay(1, score=50)
    assert (await redis.processing(), await redis.delayed()) == ([], [1])


async def test_delay_of_two_times_the_earlier_wins(redis: Redis) -> None:
    await redis.delay(1, score=50)
    await redis.delay(1, score=70)
    assert await redis.score(redis.keys.delayed(Q), 1) == 50
    await redis.delay(1, score=30)
    assert await redis.score(redis.keys.delayed(Q), 1) == 30


async def test_delay_of_what_waits_in_the_queue_leaves_it_there(redis: Redis) -> None:
    await redis.push(1)
    await redis.reserve()
    await redis.push(1)
    await redis.delay(1, 2, score=50)
    assert await redis.waiting() == [1]
    assert (await redis.delayed(), await redis.processing()) == ([2], [])


async def test_delay_of_more_than_a_batch(redis: Redis) -> None:
    await redis.delay(*range(1, BATCH + 2), score=50)
    assert len(await redis.delayed()) == BATCH + 1


# ---- promote -------------------------------------------------------------------------------------


async def test_promote_moves_only_what_is_due_and_says_when_the_next_one_is(redis: Redis) -> None:
    for id_, score in ((1, 10), (2, 20), (3, 30)):
        await redis.delay(id_, score=score)
    assert await redis.queues.promote(Q, 20) == (2, 30)
    assert (await redis.waiting(), await redis.delayed()) == ([1, 2], [3])
    assert await redis.score(redis.keys.queue(Q), 2) == 20
    assert await redis.queues.promote(Q, 30) == (1, None)


async def test_promote_wakes_if_the_queue_was_empty(redis: Redis, heard: list[str]) -> None:
    await redis.delay(1, score=10)
    await redis.delay(2, score=20)
    await redis.queues.promote(Q, 10)
    await redis.queues.promote(Q, 20)
    assert await and_nothing_more(redis, heard) == [Q]


async def test_promote_moves_at_most_n(redis: Redis) -> None:
    await redis.delay(*range(1, 6), score=10)
    assert await redis.queues.promote(Q, 10, 2) == (2, 10)
    assert len(await redis.waiting()) == 2


async def test_promote_two_in_a_tight_loop_over_1000_entries_make_1000_pushes(
    redis: Redis,
) -> None:
    await redis.delay(*range(1, 1001), score=10)

    async def promoter() -> int:
        total = 0
        while (got := await redis.queues.promote(Q, 10, 7))[0]:
            total += got[0]
        return total

    assert sum(await asyncio.gather(promoter(), promoter())) == 1000
    assert sorted(await redis.waiting()) == list(range(1, 1001))


# ---- requeue -------------------------------------------------------------------------------------


async def test_requeue_gives_back_only_what_is_past_the_grace_and_first_in_line(
    redis: Redis,
) -> None:
    await redis.push(1, 2, 3, score=5)
    await redis.reserve(2)
    await redis.age(2)
    assert await redis.queues.requeue(Q, 10.0) == 1
    assert (await redis.processing(), await redis.waiting()) == ([1], [2, 3])
    assert await redis.score(redis.keys.queue(Q), 2) == 0


async def test_requeue_of_what_waits_already_keeps_its_place(redis: Redis) -> None:
    await redis.push(1)
    await redis.reserve()
    await redis.push(1, score=77)
    await redis.age(1)
    await redis.queues.requeue(Q, 10.0)
    assert await redis.waiting() == [1]
    assert await redis.score(redis.keys.queue(Q), 1) == 77


async def test_requeue_of_more_than_a_batch_goes_in_portions(redis: Redis) -> None:
    await redis.push(*range(1, 6))
    await redis.reserve()
    await redis.age(*range(1, 6))
    assert [await redis.queues.requeue(Q, 10.0, 3) for _ in range(3)] == [3, 2, 0]


async def test_requeue_wakes(redis: Redis, heard: list[str]) -> None:
    await redis.push(1)
    await redis.reserve()
    await redis.age(1)
    await redis.queues.requeue(Q, 10.0)
    assert await and_nothing_more(redis, heard) == [Q, Q]


# ---- put_back, and looking -----------------------------------------------------------------------


async def test_put_back_goes_by_its_run_at(redis: Redis) -> None:
    await redis.push(1, score=5)
    await redis.push(2, score=3)
    await redis.reserve(1)
    await redis.queues.put_back([Delivery(2, Q, 9, True)])
    assert (await redis.waiting(), await redis.processing()) == ([1, 2], [])


async def test_present_looks_at_queue_and_delayed_and_not_at_processing(redis: Redis) -> None:
    await redis.push(1, 2)
    await redis.reserve(1)
    await redis.delay(3, score=10**16)
    assert await redis.queues.present(Q, [1, 2, 3, 4]) == [False, True, True, False]


async def test_depths_are_of_every_listed_queue(redis: Redis) -> None:
    await redis.push(1, 2, 3)
    await redis.reserve(1)
    await redis.delay(9, score=10**16, queue=HIGH)
    depths = await redis.queues.depths()
    assert {name: tuple(depth) for name, depth in depths.items()} == {
        "payroll": (0, 0, 0),
        "high": (0, 0, 1),
        "default": (2, 1, 0),
        "low": (0, 0, 0),
    }


async def test_place_is_where_a_message_is(redis: Redis) -> None:
    await redis.push(1, 2, 3)
    await redis.reserve(1)
    await redis.delay(9, score=10**16)
    ranks = [(await redis.queues.place(Q, i)).rank for i in (2, 3)]
    assert ranks == [0, 1]
    assert (await redis.queues.place(Q, 1)).reserved_at
    assert (await redis.queues.place(Q, 9)).delayed_until == 10**16
    assert (await redis.queues.place(Q, 4)).nowhere


# ---- scripts -------------------------------------------------------------------------------------


async def test_scripts_are_loaded_again_after_redis_has_forgotten_them_and_run_once(
    redis: Redis,
) -> None:
    await redis.push(1)
    await redis.do("SCRIPT", "FLUSH")
    assert await redis.push(2) == 1
    await redis.do("SCRIPT", "FLUSH")
    assert [r.id for r in await redis.reserve(1)] == [1]
    assert await redis.waiting() == [2]


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_name_their_keys_and_arguments_at_their_head(name: str) -> None:
    head = [line for line in SCRIPTS[name][0].splitlines()[:3] if line.startswith("--")]
    assert "KEYS:" in " ".join(head)
    uses_arguments = "ARGV" in SCRIPTS[name][0].replace("ARGV:", "")
    assert ("ARGV:" in " ".join(head)) == uses_arguments


async def test_peek_goes_on_from_the_last_one_and_changes_nothing(redis: Redis) -> None:
    await redis.push(1, 2, 3, score=7)
    await redis.push(4, score=9)
    await redis.push(5, queue=LOW)
    first = await redis.queues.peek([(Q, None), (LOW, None)], 2)
    assert [[each.id for each in some] for some in first.values()] == [[1, 2], [5]]
    then = await redis.queues.peek([(Q, first[Q][-1])], 5)
    assert [each.id for each in then[Q]] == [3, 4]
    await redis.do("ZREM", redis.keys.queue(Q), 2)
    again = await redis.queues.peek([(Q, first[Q][-1])], 5)
    assert [each.id for each in again[Q]] == [1, 3, 4]  # from the first of its score
    assert (await redis.waiting(), await redis.processing()) == ([1, 3, 4], [])


async def test_take_reserves_those_that_still_wait(redis: Redis) -> None:
    await redis.push(1, 2, 3)
    generation = redis.parts.memory.generation
    assert await redis.queues.take(Q, [2, 9], generation) == [Reservation(2, Q)]
    assert (await redis.waiting(), await redis.processing()) == ([1, 3], [2])
    with pytest.raises(BadEpoch):
        await redis.queues.take(Q, [1], generation + 1)
    assert await redis.waiting() == [1, 3]
