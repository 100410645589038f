"""No secret gets through, nothing that cannot be shown raises, and what is left is plain data."""

import json
import math
from decimal import Decimal
from typing import Any

import pytest

from taskengine.telemetry.redact import HIDDEN, clean, clean_text, hide


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class HostileText(str):
    __slots__ = ()

    def encode(self, *args: Any) -> bytes:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PGPASSWORD",
        "db_passwd",
        "token",
        "claim_token",
        "client_secret",
        "key",
        "keys",
        "api_key",
        "signing-keys",
        "Authorization",
        "x-everee-webhook-signature",
        "dsn",
        "cookie",
    ],
)
def test_values_under_secret_names(name: str) -> None:
    assert clean("hunter2", name) == HIDDEN
    assert clean({"deep": [{name: "hunter2"}]}) == {"deep": [{name: HIDDEN}]}


@pytest.mark.parametrize(
    "name", ["idempotency_key", "exclusive_key", "queue", "monkey", "keyboard"]
)
def test_values_under_other_names_stay(name: str) -> None:
    assert clean("paystub:7", name) == "paystub:7"


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach postgresql://app:hunter2@db:5432/payroll",
        "redis://:hunter2@cache/0 refused",
        "postgresql://app:hunter2@with/slash:and@signs@db/x",
        "host=db password=hunter2 user=app",
        "PASSWORD='hunter2 and more'",
        '{"password": "hunter2", "user": "app"}',
        "Authorization: Bearer hunter2hunter2",
        "sent with Bearer hunter2.hunter2",
        "https://api/x?token=hunter2&y=1",
        "whsec_hunter2hunter2",
        'new row for relation "executions": Failing row contains (1, {"iban": "hunter2"}).',
    ],
)
def test_secrets_inside_text(text: str) -> None:
    assert "hunter2" not in clean_text(text)
    assert "hunter2" not in clean(ValueError(text))
    assert "hunter2" not in str(clean(text.encode()))


def test_case_is_ignored_as_unicode_has_it() -> None:
    assert clean_text("PA\u017f\u017fWORD=hunter2") == "PA\u017f\u017fWORD=***"


def test_text_without_secrets_is_as_it_was() -> None:
    text = "GET http://host:8080/path took 3 s, see https://example.org/?q=1"
    assert clean_text(text) == text


BROKEN: list[Any] = [
    Hostile(),
    HostileText("x"),
    {"a": Hostile()},
    [Hostile()],
    {Hostile: 1},
    ValueError(Hostile()),
]


@pytest.mark.parametrize("value", BROKEN, ids=range(len(BROKEN)))
def test_what_cannot_be_shown_is_named(value: object) -> None:
    json.dumps(clean(value), allow_nan=False)


def test_no_value_that_json_does_not_know() -> None:
    assert clean([math.nan, math.inf, "\ud800", b"\xff", {1: 2}, {3}, 10**30]) == [
        "nan",
        "inf",
        "\\ud800",
        "b'\\xff'",
        {"1": 2},
        [3],
        10**30,
    ]


def test_size_and_depth_are_bounded() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert len(json.dumps(clean(loop))) < 100
    assert len(clean("x" * 1_000_000)) < 30_000
    assert clean("x" * 1_000_000 + "the end").endswith("the end")
    assert len(clean(list(range(100_000)))) == 200


def test_what_a_job_logs_keeps_its_types_and_loses_its_secrets() -> None:
    price = Decimal("1.10")
    fields = {"price": price, "list": [{"api_key": "hunter2"}, "token=hunter2"], 7: None}
    assert hide(fields) == {"price": price, "list": [{"api_key": HIDDEN}, "token=***"], 7: None}
    hostile = Hostile()
    assert hide({"it": hostile}) == {"it": hostile}
