"""What an event says of itself, and what is said where it says nothing that can be used."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskengine.config import Source
from taskengine.model.envelope import Envelope, digest_of, payload_of, read_envelope

DIGEST = digest_of(b"body")
HASHED = f"sha256:{DIGEST.hex()}"
AT = datetime(2027, 1, 1, tzinfo=UTC)
STAMP = 1798761600


def source(scheme: str = "everee", **more: Any) -> Source:
    return Source.model_validate({"scheme": scheme, "keys": ["k"], "job": "event"} | more)


def read(value: Any, headers: list[tuple[bytes, bytes]] | None = None, **settings: Any) -> Envelope:
    return read_envelope(source(**settings), headers or [], value, DIGEST)


GOOD = {"id": "evt-1", "type": "payment.paid", "companyId": 1, "timestamp": STAMP}


def test_everees_envelope_needs_no_configuration() -> None:
    assert read(GOOD) == Envelope("evt-1", "payment.paid", AT, True, None)
    assert read(GOOD).status == "received"


def test_milliseconds_and_seconds_are_told_apart() -> None:
    assert read(GOOD | {"timestamp": STAMP * 1000}).occurred_at == AT


@pytest.mark.parametrize(
    "timestamp",
    [True, "tomorrow", "2027-01-01T00:00:00", None, 10**400, -(10**20), 1e308, Decimal("1e5000")],
)
def test_a_time_that_is_none_is_left_out(timestamp: Any) -> None:
    assert read(GOOD | {"timestamp": timestamp}).occurred_at is None


def test_standard_webhooks_say_their_time_as_text() -> None:
    found = read({"timestamp": "2027-01-01T01:00:00+01:00"}, scheme="standard")
    assert found.occurred_at == AT


@pytest.mark.parametrize("bad", [None, "", 1.5, True, {}, [], "x" * 256, "é" * 128, 10**400])
@pytest.mark.parametrize("field", ["id", "type"])
def test_a_genuine_body_without_id_or_type_is_invalid(field: str, bad: Any) -> None:
    found = read(GOOD | {field: bad})
    assert found.status == "invalid"
    assert field in str(found.problem)
    if field == "id":
        assert found.event_id == HASHED


@pytest.mark.parametrize("value", [[], 5, "text", None, {}])
def test_a_body_of_another_shape_is_invalid(value: Any) -> None:
    found = read(value)
    assert (found.status, found.event_id) == ("invalid", HASHED)


def test_a_number_may_be_an_id() -> None:
    assert read(GOOD | {"id": 9007199254740993}).event_id == "9007199254740993"


def test_an_event_is_a_companys_or_a_partners() -> None:
    audience = b"x-everee-webhook-audience"
    assert read(GOOD, [(audience, b"company")]).problem is None
    assert read(GOOD, [(audience, b"something")]).problem is None
    assert read(GOOD, [(audience, b"partner")]).status == "invalid"
    assert read(GOOD | {"partnerId": 2}).status == "invalid"


def test_without_a_place_the_id_is_the_bodys_hash() -> None:
    found = read({"a": 1}, scheme="github")
    assert (found.event_id, found.type, found.status) == (HASHED, None, "received")


def test_id_and_type_may_stand_in_headers() -> None:
    headers = [(b"X-GitHub-Delivery", b"72d3162e"), (b"x-github-event", b"push")]
    places = {"id": "header:X-GitHub-Delivery", "type": "header:x-github-event"}
    found = read({}, headers, scheme="github", **places)
    assert (found.event_id, found.type) == ("72d3162e", "push")
    assert read({}, [headers[0], *headers], scheme="github", **places).status == "invalid"
    wild = [(b"x-github-delivery", b"\xff"), headers[1]]
    assert read({}, wild, scheme="github", **places).event_id == HASHED


@pytest.mark.parametrize(
    ("types", "status"),
    [
        (["*"], "received"),
        (["payment.*"], "received"),
        (["worker.*", "payment.paid"], "received"),
        (["worker.*"], "ignored"),
        (["Payment.*"], "ignored"),
    ],
)
def test_types_are_globs(types: list[str], status: str) -> None:
    assert read(GOOD, types=types).status == status


def test_the_payload_names_the_event() -> None:
    expected = '{"webhook_event_id":7,"source":"everee","type":null}'
    assert payload_of(7, "everee", None) == expected


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["id", "type", "timestamp", "created", "companyId", "partnerId", "x"]),
            inner,
            max_size=5,
        )
    ),
)


@given(
    value=_JSON,
    scheme=st.sampled_from(["everee", "stripe", "standard", "github"]),
    headers=st.lists(st.tuples(st.sampled_from([b"x-everee-webhook-audience", b"x"]), st.binary())),
)
def test_every_body_has_an_id_that_can_be_stored(
    value: Any, scheme: str, headers: list[tuple[bytes, bytes]]
) -> None:
    found = read(value, headers, scheme=scheme)
    assert 1 <= len(found.event_id.encode("utf-8", "surrogatepass")) <= 255
