"""What jobs return: stored in a documented form, or a reason that can be stored."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from taskengine.model import payload


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    HI = "hi"


@dataclasses.dataclass
class Point:
    x: Decimal
    at: date


class Model(BaseModel):
    total: Decimal
    when: datetime


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Exploding(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("\ud83d")


MORNING = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (Decimal("1.10"), '"1.10"'),
        (MORNING, '"2026-11-30T08:00:00+00:00"'),
        (date(2026, 11, 30), '"2026-11-30"'),
        (time(8, 30), '"08:30:00"'),
        (timedelta(minutes=1), "60.0"),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ([Colour.RED, Level.HIGH, Word.HI], '["red",3,"hi"]'),
        ((1, 2), "[1,2]"),
        ({Colour.RED: 1, UUID(int=0): 2}, '{"red":1,"00000000-0000-0000-0000-000000000000":2}'),
        (Point(Decimal("0.10"), date(2026, 1, 2)), '{"x":"0.10","at":"2026-01-02"}'),
        (
            {"m": Model(total=Decimal("5.50"), when=MORNING)},
            '{"m":{"total":"5.50","when":"2026-11-30T08:00:00+00:00"}}',
        ),
    ],
)
def test_results_have_a_documented_encoding(value: object, text: str) -> None:
    assert payload.encode_result(value, 1000) == (text, None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "result at $"),
        ({"a": [float("inf")]}, "$.a[0]"),
        (Decimal("Infinity"), "result at $"),
        ("x\0", "u0000"),
        ("\ude00", "surrogate"),
        ({1, 2}, "pass a list"),
        (b"x", "base64"),
        (Hostile(), "Hostile"),
        ({"a": Hostile()}, "$.a"),
        (Exploding(), "RuntimeError"),
        ({1: 2}, "keys are text"),
        ("x" * 1000, "at most 1,000"),
        (nested(5_000), "levels deep"),
        (Point, "result at $"),
    ],
)
def test_what_cannot_be_stored_has_a_reason_instead(value: object, reason: str) -> None:
    text, problem = payload.encode_result(value, 1000)
    assert text is None
    assert problem is not None
    assert reason in problem
    problem.encode()
    assert "\0" not in problem
