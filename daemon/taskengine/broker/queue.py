"""The queues in Redis: sorted sets of ids, moved by one script a step.

A message is an id and nothing else; losing all of them loses nothing (see the specification's
"Redis: what is in it, and why it can be lost"). Scores are `run_at` in µs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from taskengine.broker.client import Client
from taskengine.broker.keys import Keys
from taskengine.model.execution import Delivery, Reservation
from taskengine.telemetry.events import emit

BATCH = 1000  # ids a script: Lua's unpack takes some 8,000 values

is_id = re.compile(rb"[1-9][0-9]{0,17}").fullmatch  # as we write them, and a bigint


class BadEpoch(Exception):
    """Redis was not rebuilt for the generation that we know: nothing may be reserved from it."""


class Depth(NamedTuple):
    """How many ids a queue has where."""

    waiting: int
    processing: int
    delayed: int


class Place(NamedTuple):
    """Where a message is: how many of the `waiting` ids are before it, since when it is reserved and
    until when it is delayed (µs); each None where it is not there."""

    rank: int | None
    waiting: int
    reserved_at: int | None
    delayed_until: int | None

    @property
    def nowhere(self) -> bool:
        return self.rank is None and self.reserved_at is None and self.delayed_until is None


class Seen(NamedTuple):
    """A message that was looked at; `score` as Redis writes it."""

    id: int
    score: str


class Queues:
    """The verbs on queues."""

    def __init__(self, client: Client, keys: Keys, names: Sequence[str]) -> None:
        self._client = client
        self._keys = keys
        self.names = tuple(names)

    async def push(self, deliveries: Sequence[Delivery]) -> int:
        """Into the queue; how many were not there yet. Pushing twice is one entry."""
        added = 0
        for queue, batch in _batches(deliveries):
            keys = [self._keys.queue(queue), self._keys.delayed(queue)]
            args = [self._keys.wake, queue, _packed(batch)]
            added += await self._client.script("push", keys, args)
        return added

    async def delay(self, deliveries: Sequence[Delivery]) -> None:
        """Out of processing, into the delayed set until their score."""
        for queue, batch in _batches(deliveries):
            k = self._keys
            keys = [k.queue(queue), k.delayed(queue), k.processing(queue)]
            await self._client.script("delay", keys, [_packed(batch)])

    async def reserve(
        self, limits: Sequence[tuple[str, int]], n: int, generation: int
    ) -> list[Reservation]:
        """Up to `n` ids from the queues in their order, each at most its limit.

        Raises `BadEpoch`. Never retried: what a lost reply had moved goes back after the grace.
        """
        keys = [self._keys.epoch]
        for queue, _ in limits:
            keys += (self._keys.queue(queue), self._keys.processing(queue))
        args = [generation, n, *(limit for _, limit in limits)]
        answer = await self._client.script("reserve", keys, args)
        if answer is None:
            raise BadEpoch
        reserved: list[Reservation] = []
        for (queue, _), members in zip(limits, answer, strict=True):
            ours = members
            if not all(map(is_id, members)):
                ours = await self._without_foreign(queue, members)
            reserved += [Reservation(int(member), queue) for member in ours]
        return reserved

    async def peek(self, after: Sequence[tuple[str, Seen | None]], n: int) -> dict[str, list[Seen]]:
        """The next `n` messages of each queue after the one named, left where they are."""
        args: list[Any] = [n]
        for _, last in after:
            args += ("", "") if last is None else last
        answer = await self._client.script("peek", [self._keys.queue(q) for q, _ in after], args)
        return {
            queue: [Seen(int(m), s.decode()) for m, s in _pairs(flat) if is_id(m)]
            for (queue, _), flat in zip(after, answer, strict=True)
        }

    async def take(self, queue: str, ids: Sequence[int], generation: int) -> list[Reservation]:
        """Reserve these, wherever in the queue they are: those that still waited. As `reserve`."""
        keys = [self._keys.epoch, self._keys.queue(queue), self._keys.processing(queue)]
        answer = await self._client.script("take", keys, [generation, " ".join(map(str, ids))])
        if answer is None:
            raise BadEpoch
        return [Reservation(int(member), queue) for member in answer]

    async def _without_foreign(self, queue: str, members: Sequence[bytes]) -> list[bytes]:
        """Drop what is no id of ours: nobody could ever run it, and Postgres would refuse it."""
        bad = [member for member in members if not is_id(member)]
        await self._client.command("ZREM", self._keys.processing(queue), *bad)
        emit("queue.foreign_dropped", queue=queue, count=len(bad))
        return [member for member in members if is_id(member)]

    async def ack(self, reservations: Iterable[Reservation]) -> None:
        """Out of processing: the row is the truth from here on."""
        ids: dict[str, list[str]] = defaultdict(list)
        for reservation in reservations:
            ids[reservation.queue].append(str(reservation.id))
        if ids:
            keys = [self._keys.processing(queue) for queue in ids]
            await self._client.script("ack", keys, [" ".join(each) for each in ids.values()])

    async def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Out of processing, back into the queue by their score."""
        await self.push(deliveries)
        await self.ack(Reservation(d.id, d.queue) for d in deliveries)

    async def due(self, now: int) -> tuple[list[str], int | None]:
        """Queues with something due at `now` (µs), and when the first entry of all is due."""
        keys = [self._keys.delayed(name) for name in self.names]
        first, *flags = await self._client.script("due", keys, [now])
        due = [name for name, flag in zip(self.names, flags, strict=True) if flag]
        return due, (int(first) if first else None)

    async def reserved(self) -> bool:
        """Whether anything is in processing."""
        keys = [self._keys.processing(name) for name in self.names]
        return bool(await self._client.command("EXISTS", *keys))

    async def promote(self, queue: str, now: int, n: int = BATCH) -> tuple[int, int | None]:
        """Delayed → queue, what is due at `now` (µs): (how many, when the next one is due)."""
        keys = [self._keys.delayed(queue), self._keys.queue(queue)]
        moved, following = await self._client.script(
            "promote", keys, [now, n, self._keys.wake, queue]
        )
        return moved, (int(float(following)) if following else None)

    async def requeue(self, queue: str, grace: float, n: int = BATCH) -> int:
        """Processing → queue, what was reserved longer ago than `grace` seconds: how many."""
        keys = [self._keys.processing(queue), self._keys.queue(queue)]
        args = [int(grace * 1_000_000), n, self._keys.wake, queue]
        moved: int = await self._client.script("requeue", keys, args)
        return moved

    async def present(self, queue: str, ids: Sequence[int]) -> list[bool]:
        """Which of the ids have their message in the queue or in the delayed set."""
        waiting, delayed = await self._client.commands(
            [
                ("ZMSCORE", self._keys.queue(queue), *ids),
                ("ZMSCORE", self._keys.delayed(queue), *ids),
            ]
        )
        return [w is not None or d is not None for w, d in zip(waiting, delayed, strict=True)]

    async def depths(self) -> Mapping[str, Depth]:
        """The depth of every listed queue, in one round trip."""
        words = [
            ("ZCARD", key)
            for name in self.names
            for key in (
                self._keys.queue(name),
                self._keys.processing(name),
                self._keys.delayed(name),
            )
        ]
        counts = await self._client.commands(words)
        return {name: Depth(*counts[3 * i : 3 * i + 3]) for i, name in enumerate(self.names)}

    async def place(self, queue: str, execution_id: int) -> Place:
        """Where the message of this id is, in one round trip; the queue need not be listed."""
        k = self._keys
        rank, waiting, reserved, delayed = await self._client.commands(
            [
                ("ZRANK", k.queue(queue), execution_id),
                ("ZCARD", k.queue(queue)),
                ("ZSCORE", k.processing(queue), execution_id),
                ("ZSCORE", k.delayed(queue), execution_id),
            ]
        )
        return Place(rank, waiting, _score(reserved), _score(delayed))


def _pairs(flat: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _score(answer: Any) -> int | None:
    return None if answer is None else int(float(answer))


def _batches(deliveries: Sequence[Delivery]) -> Iterable[tuple[str, Sequence[Delivery]]]:
    """By queue, at most `BATCH` at a time."""
    by_queue: dict[str, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        by_queue[delivery.queue].append(delivery)
    for queue, rows in by_queue.items():
        for start in range(0, len(rows), BATCH):
            yield queue, rows[start : start + BATCH]


def _packed(deliveries: Sequence[Delivery]) -> str:
    """Score and id in turn as one argument: packing each alone costs more than all the rest."""
    return " ".join([f"{d.score} {d.id}" for d in deliveries])
