"""Looking into Redis without changing it, and taking out what should not be there.

Guarantees: bounded whatever the sets hold (no KEYS, no whole set at once); where a message is, is
seen at one moment, so that one on its way from set to set is never missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taskengine.broker.client import Client
from taskengine.broker.keys import Keys
from taskengine.broker.queue import BATCH, is_id
from taskengine.model.execution import Delivery

_SET, _HASH, _STRING = "zset", "hash", "string"


class Strange(NamedTuple):
    """A key of ours that holds something else; `queue` is empty where it is no queue's."""

    key: str
    queue: str
    found: str


class Inspection:
    """Questions about the keys of these queues, in batches of 1,000 ids."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def without_message(self, queue: str, rows: Sequence[Delivery]) -> list[Delivery]:
        """Those that are nowhere: neither waiting, delayed nor reserved."""
        nowhere: list[Delivery] = []
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            text = " ".join(str(row.id) for row in some)
            there = await self._client.script("locate", self._sets(queue), [text])
            nowhere += [row for row, is_there in zip(some, there, strict=True) if not is_there]
        return nowhere

    async def messages(self, queue: str, most: int) -> tuple[list[int], list[bytes]]:
        """The first `most` that wait and that are delayed: ids, and what is no id of ours."""
        k = self._keys
        commands = [("ZRANGE", key, 0, most - 1) for key in (k.queue(queue), k.delayed(queue))]
        members = {each for part in await self._client.commands(commands) for each in part}
        ids = sorted(int(each) for each in members if is_id(each))
        return ids, sorted(each for each in members if not is_id(each))

    async def reserved_longer(self, queue: str, seconds: float, most: int) -> list[int]:
        """Ids that were reserved longer ago by Redis's clock."""
        before = int((await self.time() - seconds) * 1_000_000)
        return await self._below(self._keys.processing(queue), before, most)

    async def delayed_until(self, queue: str, score: int, most: int) -> list[int]:
        """Ids in the delayed set that were due before `score` (µs)."""
        return await self._below(self._keys.delayed(queue), score, most)

    async def _below(self, key: str, score: int, most: int) -> list[int]:
        words = ("ZRANGEBYSCORE", key, "-inf", f"({score}", "LIMIT", 0, most)
        return [int(each) for each in await self._client.command(*words) if is_id(each)]

    async def time(self) -> float:
        """Redis's clock, in seconds since 1970."""
        seconds, micro = await self._client.command("TIME")
        return int(seconds) + int(micro) / 1_000_000

    async def drop(self, queue: str, members: Sequence[int | bytes]) -> None:
        """Take messages out, wherever they are."""
        for start in range(0, len(members), BATCH):
            some = members[start : start + BATCH]
            await self._client.commands([("ZREM", key, *some) for key in self._sets(queue)])

    async def wrong_types(self, queues: Sequence[str]) -> list[Strange]:
        """Keys of ours that hold something else."""
        ours = self._ours(queues)
        answers = await self._client.commands([("TYPE", key) for key, _, _ in ours])
        found = [answer.decode() for answer in answers]
        return [
            Strange(key, queue, told)
            for (key, queue, wanted), told in zip(ours, found, strict=True)
            if told not in ("none", wanted)
        ]

    async def drop_wrong_types(self, queues: Sequence[str]) -> list[Strange]:
        """Drop them; those that were dropped by us."""
        ours = self._ours(queues)
        keys, wanted = [key for key, _, _ in ours], [kind for _, _, kind in ours]
        told = await self._client.script("drop_wrong_types", keys, wanted)
        dropped = zip(told[::2], told[1::2], strict=True)
        return [Strange(ours[n - 1][0], ours[n - 1][1], found.decode()) for n, found in dropped]

    def _sets(self, queue: str) -> list[str]:
        k = self._keys
        return [k.queue(queue), k.delayed(queue), k.processing(queue)]

    def _ours(self, queues: Sequence[str]) -> list[tuple[str, str, str]]:
        """(key, queue, type) of all that we keep there."""
        k = self._keys
        sets = [(key, queue, _SET) for queue in queues for key in self._sets(queue)]
        return [*sets, (k.epoch, "", _HASH), (k.scheduler_lock, "", _STRING)]
