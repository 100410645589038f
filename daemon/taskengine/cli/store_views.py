"""Stores for the command line. Guarantees: a DSN is neither an argument nor ever shown."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from taskengine.cli import out
from taskengine.client import TaskEngine
from taskengine.errors import InvalidSetting, UnknownStore
from taskengine.model.keys import check_type_num
from taskengine.model.wall_time import zone_of
from taskengine.store import stores
from taskengine.store.stores import StoreRow


class NewStore(NamedTuple):
    """A store as it is to be."""

    type_num: str
    name: str
    time_zone: str
    dsn: str | None


class Answer(NamedTuple):
    """What became of a store."""

    store: str
    answer: str


ANSWERS = [
    out.Column[Answer]("store", lambda each: each.store),
    out.Column[Answer]("answer", lambda each: each.answer),
]

COLUMNS = [
    out.Column[StoreRow]("store", lambda each: each.type_num),
    out.Column[StoreRow]("name", lambda each: each.name),
    out.Column[StoreRow]("zone", lambda each: each.time_zone),
    out.Column[StoreRow]("active", lambda each: each.is_active),
    out.Column[StoreRow]("database", lambda each: each.has_dsn),
    out.Column[StoreRow]("closed", lambda each: each.closed_at),
]


def shape(each: StoreRow) -> dict[str, object]:
    """The JSON object of a store."""
    return each._asdict()


async def read(engine: TaskEngine) -> list[StoreRow]:
    """Every store."""
    async with engine.parts.store.connection() as c:
        return await stores.list_(c)


def new_store(
    type_num: str, name: str, time_zone: str, dsn_env: str | None, *, dsn_stdin: bool
) -> NewStore:
    """Raises `InvalidSetting`, and `ScheduleError` for an unknown zone."""
    check_type_num(type_num)
    zone_of(time_zone)
    if not 1 <= len(name.strip()) <= 200:
        raise InvalidSetting("--name: 1 to 200 characters")
    return NewStore(type_num, name.strip(), time_zone, _dsn(dsn_env, from_stdin=dsn_stdin))


def _dsn(variable: str | None, *, from_stdin: bool) -> str | None:
    if variable is not None and from_stdin:
        raise InvalidSetting("--dsn-from-env and --dsn-from-stdin exclude each other")
    if variable is None and not from_stdin:
        return None
    if variable is not None and variable not in os.environ:
        raise InvalidSetting(f"there is no environment variable {variable!r}")
    dsn = (sys.stdin.readline() if variable is None else os.environ[variable]).strip()
    if not dsn.startswith(("postgresql://", "postgres://")):
        raise InvalidSetting("the store's DSN must begin with postgresql://")
    return dsn


async def add(engine: TaskEngine, new: NewStore) -> Answer:
    """Add, or open and change."""
    async with engine.parts.store.connection() as c:
        created = await stores.add(c, *new)
    return Answer(new.type_num, "added" if created else "changed")


async def close(engine: TaskEngine, type_num: str) -> Answer:
    """Raises `UnknownStore` with the nearest one."""
    async with engine.parts.store.connection() as c:
        if not await stores.close(c, type_num):
            raise UnknownStore(type_num, [each.type_num for each in await stores.list_(c)])
    return Answer(type_num, "closed")
