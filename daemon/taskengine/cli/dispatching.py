"""A dispatch from the command line: read, carried out, perhaps waited for.

Guarantees: the payload reaches the database digit for digit, or is refused; a time without a zone
is refused, because whose it is would be a guess.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from taskengine.cli import out
from taskengine.cli.failure import FAILURE, OK, TEMPFAIL
from taskengine.cli.words import first_line
from taskengine.client import TaskEngine
from taskengine.config.values import duration
from taskengine.errors import InvalidSetting, PayloadError
from taskengine.model.execution import Dispatched, State
from taskengine.model.payload import JsonValue, loads_strict
from taskengine.store import stores
from taskengine.telemetry.redact import clean_text


@dataclass(frozen=True)
class Order:
    """What is to be dispatched; `store` None and `all_stores` False: a global job."""

    job: str
    payload: Mapping[str, JsonValue]
    key: str | None
    delay: float
    run_at: datetime | None
    store: str | None
    exclusive_key: str | None
    all_stores: bool


class Sent(NamedTuple):
    """An answer, for which store, and the state in which the execution was last seen."""

    store: str | None
    dispatched: Dispatched
    state: State


def order(
    job: str,
    payload: str,
    key: str | None,
    delay: str | None,
    run_at: str | None,
    store: str | None,
    exclusive_key: str | None = None,
    *,
    all_stores: bool,
) -> Order:
    """Raises `PayloadError` and `InvalidSetting`."""
    if store is not None and all_stores:
        raise InvalidSetting("--store and --all-stores exclude each other")
    if delay is not None and run_at is not None:
        raise InvalidSetting("--delay and --run-at exclude each other")
    values = _payload(payload)
    return Order(job, values, key, _delay(delay), _moment(run_at), store, exclusive_key, all_stores)


def _payload(text: str) -> Mapping[str, JsonValue]:
    value = loads_strict(_read(text))
    if not isinstance(value, dict):
        raise PayloadError("$", "a payload is a JSON object: its parameters by name")
    return value


def _read(text: str) -> bytes:
    if text == "-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return os.fsencode(text)
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise InvalidSetting(f"--payload {text}: cannot be read: {error.strerror}") from None


def _delay(text: str | None) -> float:
    try:
        seconds = float(duration(text)) if text is not None else 0.0
    except ValueError as error:
        raise InvalidSetting(f"--delay {text!r}: {error}") from None
    if not 0 <= seconds <= 3_660 * 86_400:
        raise InvalidSetting(f"--delay {text!r}: from 0 to ten years")
    return seconds


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidSetting(f"--run-at {text!r}: write it as 2026-11-30T22:00:00+01:00") from None
    if moment.tzinfo is None:
        raise InvalidSetting(f"--run-at {text!r}: has no zone; add Z or such as +01:00")
    return moment


async def carry_out(engine: TaskEngine, wanted: Order, wait: float | None) -> list[Sent]:
    """Dispatch, and wait for so many seconds. Raises what the door refuses."""
    sent = await _dispatch(engine, wanted)
    if wait is None:
        return sent
    return list(await asyncio.gather(*(_ended(engine, each, wait) for each in sent)))


async def _dispatch(engine: TaskEngine, wanted: Order) -> list[Sent]:
    places: Sequence[str | None] = [wanted.store]
    if wanted.all_stores:
        async with engine.parts.store.connection() as c:
            places = [each.type_num for each in await stores.active(c)]
    answers = await asyncio.gather(*(_one(engine, replace(wanted, store=each)) for each in places))
    return [Sent(p, each, State(each.state)) for p, each in zip(places, answers, strict=True)]


async def _one(engine: TaskEngine, wanted: Order) -> Dispatched:
    return await engine.dispatch(
        wanted.job,
        wanted.payload,
        key=wanted.key,
        delay=wanted.delay,
        run_at=wanted.run_at,
        store=wanted.store,
        exclusive_key=wanted.exclusive_key,
    )


async def _ended(engine: TaskEngine, sent: Sent, seconds: float) -> Sent:
    """As it is when it has ended, or when the time is up; a message says why it did not succeed."""
    execution_id = sent.dispatched.execution_id
    try:
        found = await engine.wait(execution_id, seconds)
    except TimeoutError:
        found = await engine.get(execution_id)
        out.note(f"execution {execution_id} has not ended within {seconds:g} s")
    if found.state is State.FAILED:
        out.note(
            f"execution {execution_id} failed: {first_line(clean_text(found.last_error or '?'))}"
        )
    return sent._replace(state=found.state)


def status(sent: Sequence[Sent], *, waited: bool) -> int:
    """The exit status: of a dispatch 0; of what was waited for, the worst of all."""
    if not waited:
        return OK
    if any(each.state in (State.FAILED, State.CANCELLED) for each in sent):
        return FAILURE
    return OK if all(each.state is State.SUCCEEDED for each in sent) else TEMPFAIL


def shape(each: Sent) -> dict[str, object]:
    """The JSON object of an answer."""
    answer = each.dispatched
    return {
        "execution_id": answer.execution_id,
        "created": answer.created,
        "state": each.state.value,
        "delivered": answer.delivered,
        "key": answer.key,
        "store": each.store,
    }


COLUMNS = [
    out.Column[Sent]("execution", lambda each: each.dispatched.execution_id, right=True),
    out.Column[Sent]("store", lambda each: each.store),
    out.Column[Sent]("created", lambda each: each.dispatched.created),
    out.Column[Sent]("state", lambda each: each.state.value),
    out.Column[Sent]("delivered", lambda each: each.dispatched.delivered),
    out.Column[Sent]("key", lambda each: each.dispatched.key),
]
