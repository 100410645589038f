"""JSON at the door: digit for digit, or refused with the path."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskengine.errors import PayloadError
from taskengine.model import payload
from taskengine.model.payload import MISSING, JsonValue


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


BAD = [
    (float("nan"), "$", "pass None"),
    ({"a": [0, 1, 2, {"b": float("inf")}]}, "$.a[3].b", "pass None"),
    ({"a": {1, 2}}, "$.a", "pass a list"),
    ({"a": b"x"}, "$.a", "base64"),
    ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, "$.a", "isoformat"),
    ({"a": UUID(int=1)}, "$.a", "str"),
    ({"a": object()}, "$.a", "pass a dict"),
    ({"a": {7: 1}}, "$.a", "keys are text"),
    ({"a": "x\0y"}, "$.a", "u0000"),
    ({"a\0": 1}, '$["a\\u0000"]', "u0000"),
    ({"a": "\ud83d"}, "$.a", "surrogate"),
    ({"\ude00": 1}, '$["\\ude00"]', "surrogate"),
    ({"odd key": {"b": [float("-inf")]}}, '$["odd key"].b[0]', "-inf"),
    (Decimal("NaN"), "$", "pass None"),
    ([Decimal("1e999999")], "$[0]", "as text"),
    ([10**4300], "$[0]", "as text"),
    (nested(101), "$[0][0][0][0][0]…", "100 levels"),
]


@pytest.mark.parametrize(("value", "path", "problem"), BAD)
def test_what_is_not_json_is_refused_by_its_path(value: object, path: str, problem: str) -> None:
    with pytest.raises(PayloadError) as refused:
        payload.encode(value)
    assert refused.value.path == path
    assert problem in refused.value.problem
    str(refused.value).encode()


def test_deep_but_not_too_deep() -> None:
    assert payload.decode(payload.encode(nested(100))) == nested(100)


def test_a_cycle_is_too_deep() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(PayloadError, match="levels deep"):
        payload.encode(cycle)


def test_text_is_compact_and_keeps_its_letters() -> None:
    assert payload.encode({"a": [1, "ü", (True, None)]}) == '{"a":[1,"ü",[true,null]]}'


@pytest.mark.parametrize(
    "text",
    [
        '{"id":9007199254740993,"amount":0.1,"big":1000000000000000000000000000000,"price":1.10}',
        "[0.12345678901234567890,1.00,-0.0,1E+400,5.50]",
        '[{"a":[1.10,"1.10"]},[],{}]',
    ],
)
def test_digits_come_back_as_they_were(text: str) -> None:
    assert payload.encode(payload.decode(text)) == text


def test_which_type_a_number_has() -> None:
    values = payload.decode("[1, 0.1, 1.10, 1e3, 1e400, 0.1234567890123456789]")
    assert isinstance(values, list)
    assert [type(v) for v in values] == [int, float, Decimal, float, Decimal, Decimal]
    assert values[2:] == [
        Decimal("1.10"),
        1000.0,
        Decimal("1e400"),
        Decimal("0.1234567890123456789"),
    ]


def test_integers_of_any_size_can_be_read_from_the_store() -> None:
    assert payload.decode("1" + "0" * 5000) == 10**5000


@pytest.mark.parametrize("text", ["{", "", "NaN", "[1e99999999]", "[" * 100_000, "1e" + "9" * 40])
def test_bad_text_in_the_store_is_a_payload_error(text: str) -> None:
    with pytest.raises(PayloadError):
        payload.decode(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("az ü.", max_size=4), inner)
    ),
    max_leaves=10,
)


def exact(value: Any) -> Any:
    """The value with all of its fractions as decimals, which compare digit for digit."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


@settings(derandomize=True, deadline=None, max_examples=150)
@given(JSON)
def test_what_is_taken_comes_back_the_same(value: Any) -> None:
    text = payload.encode(value)
    again = payload.decode(text)
    assert again == payload.loads_strict(text.encode())
    assert exact(again) == exact(value)
    json.loads(text)


def test_size_is_counted_in_bytes() -> None:
    assert payload.check_size("ü" * 5, 10) == "ü" * 5
    with pytest.raises(PayloadError, match="12 bytes, at most 10"):
        payload.check_size("ü" * 6, 10)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"{", "not JSON"),
        (b"{}{}", "not JSON"),
        (b"\xff\xfe", "UTF-8"),
        (b"\xef\xbb\xbf{}", "byte-order"),
        ("{}".encode("utf-16"), "UTF-8"),
        (b"[NaN]", "NaN"),
        (b"-Infinity", "Infinity"),
        (b"[" * 20_000 + b"]" * 20_000, "deep"),
        (b'{"a":' * 1_500 + b"1" + b"}" * 1_500, "deep"),
        (b"[" * 101 + b"]" * 101, "deep"),
        (b"1" * 5_000, "4,299"),
        (b"1" * 4_300, "4,299"),
        (b'{"a":"\\u0000"}', "u0000"),
        (b'{"a":"\\ud83d"}', "surrogate"),
        (b"1e999999999999999999999", "digits"),
    ],
)
def test_unusable_bodies_are_refused(body: bytes, problem: str) -> None:
    with pytest.raises(PayloadError) as refused:
        payload.loads_strict(body)
    assert problem in refused.value.problem


@settings(derandomize=True, deadline=None)
@given(st.binary())
def test_no_body_raises_anything_else(body: bytes) -> None:
    with contextlib.suppress(PayloadError):
        payload.loads_strict(body)


def test_of_duplicate_keys_the_last_wins() -> None:
    assert payload.loads_strict(b'{"a":1,"a":2}') == {"a": 2}


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", "whole"),
        ("/a/0/b", 1),
        ("/a/1", None),
        ("/x~1y/~0", "odd"),
        ("/", "empty"),
        ("/a/2", MISSING),
        ("/a/-", MISSING),
        ("/a/00", MISSING),
        ("/a/\u0660", MISSING),
        ("/a/0/b/c", MISSING),
        ("/a/" + "9" * 5000, MISSING),
    ],
)
def test_pointers(pointer: str, found: object) -> None:
    value: JsonValue = {"a": [{"b": 1}, None], "x/y": {"~": "odd"}, "": "empty"}
    assert payload.at_pointer(value, pointer) == (value if found == "whole" else found)
