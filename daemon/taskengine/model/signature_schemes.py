"""What a webhook's headers claim: the signed text's beginning, the signatures, the time.

One function a scheme, each after its sender's own documentation. Nothing is verified here.
Guarantees: any bytes in a header give a `Signed` or a `Reason`, never an exception; what is kept is
bounded (length of a header, number of signatures, digits of a timestamp); a header that comes twice
is refused, because which one counts would be a guess.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

Headers = Iterable[tuple[bytes, bytes]]
"""A request's headers as they came: (name, value), bytes."""

MAX_HEADER_BYTES: Final = 4096
MAX_SIGNATURES: Final = 10

_BLANK = b" \t"  # what HTTP allows around a value
_TIMESTAMP = re.compile(rb"[0-9]{1,11}")  # seconds until the year 5138; milliseconds have 13 digits
_MESSAGE_ID = re.compile(rb"[!-\-/-~]{1,255}")  # printable ASCII without the full stop that divides


class Reason(StrEnum):
    """Why a request is refused. A closed list: it is a metric's label."""

    MISSING = "missing_signature"
    MALFORMED = "malformed_signature"
    WRONG = "bad_signature"
    STALE = "stale"
    FUTURE = "future"


class Signed(NamedTuple):
    """What the sender says. `prefix` stands before the body in the signed text; `written` turns a
    digest into what a signature looks like under this scheme; no `timestamp`: no tolerance."""

    prefix: bytes
    signatures: tuple[bytes, ...]
    timestamp: int | None
    written: Callable[[bytes], bytes]


def read_signature(scheme: str, headers: Headers) -> Signed | Reason:
    """What the headers claim under this scheme (everee, standard, stripe, github)."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        lowered = name.lower()
        if lowered in _HEADERS[scheme]:
            if lowered in found or not _is_sound(value):
                return Reason.MALFORMED
            found[lowered] = value.strip(_BLANK)
    if any(not found.get(name) for name in _HEADERS[scheme]):
        return Reason.MISSING
    signed = _SCHEMES[scheme](found)
    if signed is None or not 0 < len(signed.signatures) <= MAX_SIGNATURES:
        return Reason.MALFORMED
    return signed


def _is_sound(value: bytes) -> bool:
    return len(value) <= MAX_HEADER_BYTES and value.isascii()


def _everee(headers: Mapping[bytes, bytes]) -> Signed | None:
    """`timestamp.body`, hex; `v1=<hex>,v1=<hex>` where two keys are active."""
    stamp = headers[b"x-everee-webhook-timestamp"]
    parts = _pairs(headers[b"x-everee-webhook-signature"])
    return _timed(stamp, b"", _values(parts, b"v1"), _hex)


def _stripe(headers: Mapping[bytes, bytes]) -> Signed | None:
    """`t.body`, hex; `t=<seconds>,v1=<hex>,v1=<hex>`; other versions are passed over."""
    parts = _pairs(headers[b"stripe-signature"])
    stamps = _values(parts, b"t")
    if len(stamps) != 1:
        return None
    return _timed(stamps[0], b"", _values(parts, b"v1"), _hex)


def _standard(headers: Mapping[bytes, bytes]) -> Signed | None:
    """Standard Webhooks 1.0: `id.timestamp.body`, base64; `v1,<base64> v1,<base64>`."""
    message = headers[b"webhook-id"]
    if not _MESSAGE_ID.fullmatch(message):
        return None
    parts = [part.split(b",", 1) for part in headers[b"webhook-signature"].split()]
    signatures = tuple(part[1] for part in parts if len(part) == 2 and part[0] == b"v1")
    return _timed(headers[b"webhook-timestamp"], message + b".", signatures, base64.b64encode)


def _github(headers: Mapping[bytes, bytes]) -> Signed | None:
    """The body alone, hex; `sha256=<hex>`. There is no time in it, so nothing to be stale."""
    signatures = _values(_pairs(headers[b"x-hub-signature-256"]), b"sha256")
    return Signed(b"", signatures, None, _hex)


def _timed(
    stamp: bytes, before: bytes, signatures: tuple[bytes, ...], written: Callable[[bytes], bytes]
) -> Signed | None:
    """The signed text holds the timestamp as it was written, not as a number."""
    if not _TIMESTAMP.fullmatch(stamp):
        return None
    return Signed(before + stamp + b".", signatures, int(stamp), written)


def _pairs(value: bytes) -> list[tuple[bytes, bytes]]:
    """`a=1, b=2` divided at commas and at each first `=`."""
    parts = [part.strip(_BLANK).partition(b"=") for part in value.split(b",")]
    return [(name, after) for name, equals, after in parts if equals]


def _values(pairs: list[tuple[bytes, bytes]], name: bytes) -> tuple[bytes, ...]:
    return tuple(value for key, value in pairs if key == name)


def _hex(digest: bytes) -> bytes:
    """Lower case, as the senders write it; upper case is refused."""
    return digest.hex().encode()


_HEADERS: Final[Mapping[str, frozenset[bytes]]] = {
    "everee": frozenset({b"x-everee-webhook-timestamp", b"x-everee-webhook-signature"}),
    "standard": frozenset({b"webhook-id", b"webhook-timestamp", b"webhook-signature"}),
    "stripe": frozenset({b"stripe-signature"}),
    "github": frozenset({b"x-hub-signature-256"}),
}
_SCHEMES: Final[Mapping[str, Callable[[Mapping[bytes, bytes]], Signed | None]]] = {
    "everee": _everee,
    "standard": _standard,
    "stripe": _stripe,
    "github": _github,
}
