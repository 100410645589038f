"""Keys and names: their form, and what is refused at the door."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone

import pytest

from taskengine.errors import InvalidSetting, KeyTooLong
from taskengine.model import keys

NOON = datetime(2026, 11, 30, 12, 0, 5, 999, tzinfo=UTC)


@pytest.mark.parametrize("key", ["a", "k" * 255, "ü" * 127, "paystub:7:2026-11", " ", "🙂" * 63])
def test_a_key_of_up_to_255_bytes_is_taken(key: str) -> None:
    assert keys.check_key(key) == key


@pytest.mark.parametrize("key", ["k" * 256, "ü" * 128, "🙂" * 64])
def test_a_longer_one_is_refused_by_its_bytes(key: str) -> None:
    with pytest.raises(KeyTooLong, match="at most 255"):
        keys.check_key(key)


@pytest.mark.parametrize(
    ("key", "hint"), [("", "empty"), ("a\0b", "NUL"), ("\ud83d", "surrogate"), (7, "got int")]
)
def test_what_cannot_be_stored_is_refused(key: object, hint: str) -> None:
    with pytest.raises(InvalidSetting, match=hint) as refused:
        keys.check_key(key)  # type: ignore[arg-type]
    str(refused.value).encode()


def test_the_refusal_says_what_the_key_was_meant_for() -> None:
    with pytest.raises(InvalidSetting, match="exclusive key"):
        keys.check_key("", "exclusive key")


def test_scheduled_keys_are_in_utc_to_the_second() -> None:
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    assert keys.scheduled_key("totals", tokyo) == "totals:2026-11-30T12:00:05Z"
    assert keys.scheduled_key("totals", NOON, "0123") == "totals:2026-11-30T12:00:05Z:0123"
    assert keys.scheduled_key("totals", NOON, "05Z") == "totals:2026-11-30T12:00:05Z:05Z"


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="time zone"):
        keys.scheduled_key("totals", NOON.replace(tzinfo=None))


def test_manual_keys_end_in_eight_hex_digits() -> None:
    key = keys.ManualKeys(NOON, random.Random(1)).draw("totals")
    assert key == "totals:manual:2026-11-30T12:00:05.000999Z:2265b1f6"
    assert key != keys.ManualKeys(NOON, random.Random(2)).draw("totals")


def test_manual_keys_of_a_batch_are_all_different() -> None:
    draw = keys.ManualKeys(NOON, random.Random(1))
    assert len({draw.draw("totals") for _ in range(5000)}) == 5000


def test_the_store_is_added_to_a_key_once() -> None:
    assert keys.store_key("close:2026-11", "0123") == "close:2026-11:0123"
    assert keys.store_key("close:2026-11:0123", "0123") == "close:2026-11:0123"
    assert keys.store_key("close:90123", "0123") == "close:90123:0123"


def test_a_key_may_not_grow_too_long_by_its_store() -> None:
    with pytest.raises(KeyTooLong):
        keys.store_key("k" * 252, "0123")


def test_webhook_keys() -> None:
    assert keys.webhook_key(42) == keys.webhook_subject(42) == "webhook:42"
    recovery = keys.webhook_recovery_key(42, NOON)
    assert recovery == "webhook-recovery:42:2026-11-30T12:00Z"
    manual = keys.webhook_manual_key(42, NOON, random.Random(1))
    assert manual == "webhook-manual:42:2026-11-30T12:00:05Z:2265b1f5"


def test_the_longest_names_still_make_a_key() -> None:
    name, store = "n" * 100, "9" * 50
    keys.store_key(keys.ManualKeys(NOON, random.Random(1)).draw(name), store)
    keys.check_key(keys.scheduled_key(name, NOON, store))


@pytest.mark.parametrize("name", ["a", "send-paystub", "0", "taskengine.notify-failure", "a" * 100])
def test_names_that_may_be(name: str) -> None:
    assert keys.check_job_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "A", "a b", "a:b", "a\n", "ä", "٣", "a" * 101, None])
def test_names_that_may_not(name: str) -> None:
    with pytest.raises(InvalidSetting, match="job name"):
        keys.check_job_name(name)


def test_a_store_is_named_by_text() -> None:
    assert keys.check_type_num("0123") == "0123"
    for bad in ("", "a:b", 123, "x" * 51, "a\n"):
        with pytest.raises(InvalidSetting, match="type_num"):
            keys.check_type_num(bad)  # type: ignore[arg-type]
