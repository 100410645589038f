"""Who may send events: every scheme, the documented vectors, whatever else a header may hold."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskengine.config import Source
from taskengine.model import signatures
from taskengine.model.signature_schemes import (
    MAX_HEADER_BYTES,
    MAX_SIGNATURES,
    Signed,
    read_signature,
)
from taskengine.model.signatures import Reason, Refused, Verified, verify

KEY = "whsk_test_0123456789abcdef"
OLD_KEY = "whsk_test_previous_fedcba9876543210"
STAMP = 1798761600
BODY_A = (
    b'{"version":"1","id":"evt-7f3c1a90","companyId":90210,"type":"payment.paid",'
    b'"timestamp":1798761598,"data":{"object":{"workerId":"5b1f0c1e-8a7d-4f7e-9f30-2f3b0f4a6c11",'
    b'"externalWorkerId":"emp-0042","paymentId":5550123,'
    b'"grossAmount":{"amount":"812.50","currency":"USD"}}}}'
)
BODY_C = bytes.fromhex(
    "7b2276657273696f6e223a2231222c226964223a226576742d757466382d31222c22636f6d70616e794964223a3930"
    "3231302c2274797065223a22746573742d6576656e742e63726561746564222c2274696d657374616d70223a313739"
    "383736313539392c2264617461223a7b226f626a656374223a7b22746573744d657373616765223a225a6fc3ab20e2"
    "9895227d7d7d0a"
)
A = "2659a4b2b0eff5d4fc5314b2e9cf14e404ce755f3eb8dca2b7f080dfe03a7c29"
B = "2aadea7c4d2caf5acb8a02162dab02c757b044fe8f8c4d8bce428619cc87f96a"
C = "d471afe56f923b55de4f92660209466a242d2a42e0c62a4279f05d2939e09e45"
D = "cb49b5dab0d6fca5287ce96e86b6fd1fbb58425b81a887e0d78683ca67c1be89"

Pairs = list[tuple[bytes, bytes]]


def source(scheme: str = "everee", **more: Any) -> Source:
    return Source.model_validate({"scheme": scheme, "keys": [KEY], "job": "event"} | more)


def everee(signature: str | bytes, stamp: str | bytes = str(STAMP)) -> Pairs:
    return [
        (b"x-everee-webhook-timestamp", stamp if isinstance(stamp, bytes) else stamp.encode()),
        (
            b"x-everee-webhook-signature",
            signature if isinstance(signature, bytes) else signature.encode(),
        ),
    ]


def judge(
    headers: Pairs, body: bytes = BODY_A, now: float = STAMP, **settings: Any
) -> Verified | Refused:
    return verify(source(**settings), headers, body, now)


def refused(reason: Reason) -> Refused:
    return Refused(reason)


# ---- Everee: the documented vectors ----------------------------------------------------------


def test_the_body_of_vector_a_is_the_documented_one() -> None:
    assert hashlib.sha256(BODY_A).hexdigest() == (
        "4433cb3a60d63aa76ab0443ede198f6ee80842f480d770b2a6df95f99a5c58e4"
    )


@pytest.mark.parametrize(("body", "digest"), [(BODY_A, A), (BODY_C, C), (b"", D)])
def test_vectors_verify_over_the_raw_bytes(body: bytes, digest: str) -> None:
    assert judge(everee(f"v1={digest}"), body) == Verified(0, STAMP)


def test_a_rotated_pair_verifies_with_either_key() -> None:
    pair = everee(f"v1={A},v1={B}")
    assert judge(pair) == Verified(0, STAMP)
    assert judge(pair, keys=[OLD_KEY]) == Verified(0, STAMP)
    assert judge(pair, keys=[KEY, OLD_KEY]) == Verified(0, STAMP)


def test_the_matching_key_is_told_by_its_place() -> None:
    assert judge(everee(f"v1={B}"), keys=[KEY, OLD_KEY]) == Verified(1, STAMP)


def test_a_key_taken_off_the_list_no_longer_verifies() -> None:
    assert judge(everee(f"v1={B}"), keys=[KEY]) == refused(Reason.WRONG)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (everee(f"v2={A}"), Reason.MALFORMED),
        (everee(A), Reason.MALFORMED),
        (everee("v1="), Reason.WRONG),
        (everee(f"v1={A.upper()}"), Reason.WRONG),
        (everee(f"V1={A}"), Reason.MALFORMED),
        (everee(f"v1={A[:-1]}"), Reason.WRONG),
        (everee(""), Reason.MISSING),
        (everee("  "), Reason.MISSING),
        (everee(f"v1={A}")[:1], Reason.MISSING),
        (everee(f"v1={A}")[1:], Reason.MISSING),
        ([], Reason.MISSING),
        (everee(f"v1={A}", str(STAMP + 1)), Reason.WRONG),
        (everee(f"v1={A}") * 2, Reason.MALFORMED),
        (everee(f"v1={A}".encode() + b"\xff"), Reason.MALFORMED),
        (everee("v1=é".encode()), Reason.MALFORMED),
        (everee("v1=" + "a" * MAX_HEADER_BYTES), Reason.MALFORMED),
        (everee(",".join([f"v1={A}"] * (MAX_SIGNATURES + 1))), Reason.MALFORMED),
    ],
)
def test_what_is_no_signature_of_everee_is_refused(headers: Pairs, reason: Reason) -> None:
    assert judge(headers) == refused(reason)


def test_a_changed_byte_of_the_body_is_refused() -> None:
    assert judge(everee(f"v1={A}"), BODY_A.replace(b"812.50", b"812.51")) == refused(Reason.WRONG)
    assert judge(everee(f"v1={C}"), BODY_C.rstrip(b"\n")) == refused(Reason.WRONG)


def test_the_right_signature_may_stand_anywhere_among_a_few() -> None:
    among = [f"v1={B}"] * (MAX_SIGNATURES - 1)
    for place in range(MAX_SIGNATURES):
        listed = [*among[:place], f" v1={A} ", *among[place:], "v2=x"]
        assert judge(everee(",".join(listed))) == Verified(0, STAMP)


def test_header_names_are_told_apart_without_case() -> None:
    shouted = [(name.upper(), value) for name, value in everee(f"v1={A}")]
    assert judge(shouted) == Verified(0, STAMP)


# ---- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (STAMP + 120, Verified(0, STAMP)),
        (STAMP - 120, Verified(0, STAMP)),
        (STAMP + 121, Refused(Reason.STALE)),
        (STAMP - 121, Refused(Reason.FUTURE)),
    ],
)
def test_the_tolerance_is_bounded_both_ways(now: float, expected: Verified | Refused) -> None:
    assert judge(everee(f"v1={A}"), now=now) == expected


def test_stale_means_genuine_but_late() -> None:
    assert judge(everee("v1=" + "0" * 64), now=STAMP + 9_999) == refused(Reason.WRONG)


@pytest.mark.parametrize(
    "stamp",
    ["abc", "-1", "1e9", "1e309", "NaN", "1_000", "0x10", "1798761600000", "1798761600.0",
     "9" * 4000, "١٢٣".encode(), b"\x0b1798761600", "+1798761600", "1798761600 1"],
)  # fmt: skip
def test_a_timestamp_is_a_few_ascii_digits(stamp: str | bytes) -> None:
    assert judge(everee(f"v1={A}", stamp)) == refused(Reason.MALFORMED)


# ---- keys --------------------------------------------------------------------------------------


def test_keys_may_be_written_as_hex_or_base64() -> None:
    hexed, encoded = KEY.encode().hex(), base64.b64encode(KEY.encode()).decode()
    assert judge(everee(f"v1={A}"), keys=[hexed], key_encoding="hex") == Verified(0, STAMP)
    assert judge(everee(f"v1={A}"), keys=[encoded], key_encoding="base64") == Verified(0, STAMP)


def test_a_blank_key_never_matches() -> None:
    """The configuration refuses one; if one came all the same, nobody could sign with it."""
    blank = source().model_copy(update={"keys": ()})
    for key in (b"", b"  "):
        signed = hmac.new(key, b"%d." % STAMP + BODY_A, hashlib.sha256).hexdigest()
        found = signatures._matching([key], _signed(everee(f"v1={signed}")), BODY_A)
        assert found is None
    assert verify(blank, everee(f"v1={A}"), BODY_A, STAMP) == refused(Reason.WRONG)


def _signed(headers: Pairs) -> Signed:
    found = read_signature("everee", headers)
    assert isinstance(found, Signed)
    return found


def test_every_key_is_tried_against_every_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def watched(ours: bytes, theirs: bytes) -> bool:
        compared.append((ours, theirs))
        return real(ours, theirs)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    judge(everee(f"v1={A},v1={B},v1=x"), keys=[KEY, OLD_KEY])
    assert len(compared) == 6
    assert all(type(side) is bytes for pair in compared for side in pair)


# ---- the other schemes -------------------------------------------------------------------------


def mac(prefix: bytes, body: bytes = BODY_A, key: bytes = KEY.encode()) -> bytes:
    return hmac.new(key, prefix + body, hashlib.sha256).digest()


def test_stripe() -> None:
    right = mac(b"%d." % STAMP).hex()

    def sent(value: str) -> Verified | Refused:
        return judge([(b"stripe-signature", value.encode())], scheme="stripe")

    assert sent(f"t={STAMP},v1={right}") == Verified(0, STAMP)
    assert sent(f"t={STAMP},v1={'0' * 64},v1={right},v0=x") == Verified(0, STAMP)
    assert sent(f"t={STAMP},v0={right}") == refused(Reason.MALFORMED)
    assert sent(f"v1={right}") == refused(Reason.MALFORMED)
    assert sent(f"t={STAMP},t={STAMP + 1},v1={right}") == refused(Reason.MALFORMED)
    assert sent(f"t={STAMP + 1},v1={right}") == refused(Reason.WRONG)
    late = judge([(b"stripe-signature", f"t={STAMP},v1={right}".encode())], scheme="stripe",
                 now=STAMP + 500)  # fmt: skip
    assert late == refused(Reason.STALE)


def test_github_signs_the_body_alone_and_has_no_time() -> None:
    right = mac(b"").hex()

    def sent(value: str, now: float = STAMP) -> Verified | Refused:
        return judge([(b"x-hub-signature-256", value.encode())], scheme="github", now=now)

    assert sent(f"sha256={right}") == Verified(0, None)
    assert sent(f"sha256={right}", now=0) == Verified(0, None)
    assert sent(f"sha1={right}") == refused(Reason.MALFORMED)
    assert sent("sha256=") == refused(Reason.WRONG)


def test_githubs_own_example() -> None:
    """From "Validating webhook deliveries" in GitHub's documentation."""
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    key = "It's a Secret to Everybody"
    found = judge([(b"x-hub-signature-256", signature.encode())], b"Hello, World!",
                  scheme="github", keys=[key])  # fmt: skip
    assert found == Verified(0, None)


SECRET = base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


def standard(message: bytes, stamp: int, value: bytes) -> Pairs:
    return [
        (b"webhook-id", message),
        (b"webhook-timestamp", b"%d" % stamp),
        (b"webhook-signature", value),
    ]


def test_standard_webhooks() -> None:
    key = base64.b64decode(SECRET)
    right = base64.b64encode(mac(b"msg_1.%d." % STAMP, key=key))

    def sent(headers: Pairs) -> Verified | Refused:
        return judge(headers, scheme="standard", keys=[f"whsec_{SECRET}"])

    assert sent(standard(b"msg_1", STAMP, b"v1," + right)) == Verified(0, STAMP)
    assert sent(standard(b"msg_1", STAMP, b"v1a,zz v1,AAAA v1," + right)) == Verified(0, STAMP)
    assert sent(standard(b"msg_2", STAMP, b"v1," + right)) == refused(Reason.WRONG)
    assert sent(standard(b"msg_1", STAMP, right)) == refused(Reason.MALFORMED)
    assert sent(standard(b"msg_1", STAMP, b"v1a," + right)) == refused(Reason.MALFORMED)
    assert sent(standard(b"msg_1", STAMP, b"v1,")) == refused(Reason.WRONG)


def test_the_specifications_own_example() -> None:
    """The example of the Standard Webhooks specification's libraries."""
    found = verify(
        source("standard", keys=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]),
        standard(
            b"msg_p5jXN8AQM9LWM0D4loKWxJek",
            1614265330,
            b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        b'{"test": 2432232314}',
        1614265330,
    )
    assert found == Verified(0, 1614265330)


def test_the_signed_text_of_standard_webhooks_has_one_reading() -> None:
    """With a full stop in the id, what is signed for one request could be said by another."""
    key = base64.b64decode(SECRET)
    right = base64.b64encode(mac(b"msg.%d." % STAMP, b"%d.{}" % STAMP, key=key))
    moved = standard(b"msg.%d" % STAMP, STAMP, b"v1," + right)
    found = judge(moved, b"{}", scheme="standard", keys=[f"whsec_{SECRET}"])
    assert found == refused(Reason.MALFORMED)


# ---- whatever comes ----------------------------------------------------------------------------

_SIGNED = [b"x-everee-webhook-timestamp", b"x-everee-webhook-signature", b"stripe-signature",
           b"x-hub-signature-256", b"webhook-id", b"webhook-timestamp",
           b"webhook-signature"]  # fmt: skip
_PIECES = st.sampled_from(
    [b"v1=", b"v1,", b"t=", b"sha256=", b",", b"=", b" ", b"1798761600", A.encode(), b"\xff", b"\0"]
)
_VALUE = st.one_of(st.binary(max_size=200), st.lists(_PIECES, max_size=40).map(b"".join))


@given(
    scheme=st.sampled_from(["everee", "standard", "stripe", "github"]),
    headers=st.lists(st.tuples(st.sampled_from(_SIGNED), _VALUE), max_size=8),
    body=st.binary(max_size=100),
    now=st.floats(min_value=0, max_value=1e12),
)
def test_no_header_makes_it_raise_or_pass(
    scheme: str, headers: Pairs, body: bytes, now: float
) -> None:
    found = verify(source(scheme), headers, body, now)
    assert isinstance(found, Refused)
    assert found.reason in Reason


@given(st.binary(max_size=300), st.integers(min_value=0, max_value=10**10))
def test_what_is_signed_verifies_whatever_its_bytes(body: bytes, stamp: int) -> None:
    signature = mac(b"%d." % stamp, body).hex()
    assert judge(everee(f"v1={signature}", str(stamp)), body, stamp) == Verified(0, stamp)
