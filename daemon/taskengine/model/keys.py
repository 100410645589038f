"""The names that executions and events are known by, and what may be one.

Guarantees: a key that passes `check_key` can be stored and indexed (1 to 255 bytes of UTF-8, no
NUL, no lone surrogate); every key made here is one, given names that pass their own checks; the
same fire time or event always gives the same key, whoever makes it.
"""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime

from taskengine.errors import InvalidSetting, KeyTooLong

MAX_KEY_BYTES = 255
_MAX_ID = 2**63 - 1  # a subject is anybody's text
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}", re.ASCII)
_TYPE_NUM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}", re.ASCII)  # as the table has it


def check_key(key: str, what: str = "idempotency key") -> str:
    """The key itself, if it can be stored: 1 to 255 bytes of UTF-8 without NUL.

    Raises `KeyTooLong`, or `InvalidSetting` naming `what` the key was meant for.
    """
    if not isinstance(key, str):
        raise InvalidSetting(f"{what}: expected text, got {type(key).__name__}; pass str(…)")
    if not key:
        raise InvalidSetting(f"{what}: it is empty; leave it out for none of your own")
    if "\0" in key:
        raise InvalidSetting(f"{what} {key!r}: it holds a NUL character, which cannot be stored")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        problem = f"a lone surrogate at character {error.start}, which is not valid Unicode"
        raise InvalidSetting(f"{what} {key!a}: it holds {problem}") from None
    if size > MAX_KEY_BYTES:
        raise KeyTooLong(key, what, MAX_KEY_BYTES)
    return key


def check_job_name(name: str) -> str:
    """The name itself, if a job may have it; `InvalidSetting` otherwise."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    rule = "1 to 100 of a-z 0-9 . _ -, a letter or digit first"
    raise InvalidSetting(f"job name {name!a}: use {rule}")


def check_type_num(type_num: str) -> str:
    """A store's number, which is text: `"0123"` and `"123"` are two stores."""
    if isinstance(type_num, str) and _TYPE_NUM.fullmatch(type_num):
        return type_num
    rule = "1 to 50 of A-Z a-z 0-9 . _ -, a letter or digit first, as text"
    raise InvalidSetting(f"type_num {type_num!a}: use {rule}")


def scheduled_key(job: str, fire_time: datetime, type_num: str | None = None) -> str:
    """`<job>:<YYYY-MM-DDTHH:MM:SSZ>[:<type_num>]`: one execution per fire time and store."""
    return f"{job}:{_second(fire_time)}{_suffix(type_num)}"


class ManualKeys:
    """Draws `<job>:manual:<timestamp>:<random 8 hex>` for one batch: never twice the same.

    The timestamp has microseconds, and within a batch the number counts on from a random start: a
    second alone and 32 random bits would collide once in fourteen at 25,000 a second, and a drawn
    key that is there already would be work silently not done.
    """

    def __init__(self, now: datetime, rng: random.Random) -> None:
        self._stamp = f"{_utc(now):%Y-%m-%dT%H:%M:%S.%fZ}"
        self._next = rng.getrandbits(32)

    def draw(self, job: str) -> str:
        self._next = (self._next + 1) & 0xFFFFFFFF
        return f"{job}:manual:{self._stamp}:{self._next:08x}"


def store_key(key: str, type_num: str) -> str:
    """The key of a per-store job, drawn or given: it ends in `:<type_num>`, once."""
    suffix = _suffix(type_num)
    return check_key(key if key.endswith(suffix) else key + suffix)


def webhook_key(event_id: int) -> str:
    """`webhook:<id>`: the key of the dispatch at ingest."""
    return f"webhook:{event_id}"


def webhook_subject(event_id: int) -> str:
    """`webhook:<id>`: what an execution for this event names as its subject."""
    return f"webhook:{event_id}"


def event_of(subject: str | None) -> int | None:
    """The event's id in a subject that `webhook_subject` made; None in any other."""
    if subject is None or not subject.startswith("webhook:"):
        return None
    number = subject[len("webhook:") :]
    is_id = number.isascii() and number.isdigit() and len(number) < len(str(_MAX_ID))
    return int(number) if is_id else None


def webhook_recovery_key(event_id: int, minute: datetime) -> str:
    """`webhook-recovery:<id>:<YYYY-MM-DDTHH:MMZ>`: one recovery per event and minute."""
    return f"webhook-recovery:{event_id}:{_utc(minute):%Y-%m-%dT%H:%MZ}"


def webhook_manual_key(event_id: int, now: datetime, rng: random.Random) -> str:
    """`webhook-manual:<id>:<timestamp>:<random 8 hex>`: an operator's."""
    return f"webhook-manual:{event_id}:{_second(now)}:{_random(rng)}"


def _suffix(type_num: str | None) -> str:
    return "" if type_num is None else f":{type_num}"


def _second(moment: datetime) -> str:
    return f"{_utc(moment):%Y-%m-%dT%H:%M:%SZ}"


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise InvalidSetting(f"{moment.isoformat()} has no time zone: pass an aware datetime")
    return moment.astimezone(UTC)


def _random(rng: random.Random) -> str:
    return f"{rng.getrandbits(32):08x}"
