"""Whether a webhook is genuine: its signature over the raw bytes, and its age.

Guarantees: fails closed; never raises, whatever the headers hold; every key is tried against every
signature, in constant time, on bytes, without an early exit; a blank key never matches; the time is
judged only where it is signed, both ways (a future one is refused too), and only once the signature
is right, so that "stale" always means "genuine, but late". No key's value leaves this module.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import NamedTuple

from taskengine.config import Source
from taskengine.model.signature_schemes import Headers, Reason, Signed, read_signature

__all__ = ["Headers", "Reason", "Refused", "Verified", "verify"]


class Verified(NamedTuple):
    """Genuine. `key_index` says which of the source's keys signed (0: the first listed)."""

    key_index: int
    timestamp: int | None


class Refused(NamedTuple):
    """Not genuine, or not now."""

    reason: Reason


def verify(source: Source, headers: Headers, body: bytes, now: float) -> Verified | Refused:
    """Judge a request. `body` is what came over the wire; `now` is in seconds since the epoch."""
    signed = read_signature(source.scheme, headers)
    if isinstance(signed, Reason):
        return Refused(signed)
    index = _matching(source.key_bytes(), signed, body)
    if index is None:
        return Refused(Reason.WRONG)
    if signed.timestamp is not None:
        age = now - signed.timestamp
        if age > source.tolerance:
            return Refused(Reason.STALE)
        if -age > source.tolerance:
            return Refused(Reason.FUTURE)
    return Verified(index, signed.timestamp)


def _matching(keys: Sequence[bytes], signed: Signed, body: bytes) -> int | None:
    """The first key that made one of the signatures; the time taken does not tell which."""
    expected = [_expected(key, signed, body) if key.strip() else b"" for key in keys]
    matches = [
        index
        for index, digest in enumerate(expected)
        for given in signed.signatures
        if hmac.compare_digest(digest, given) and digest
    ]
    return matches[0] if matches else None


def _expected(key: bytes, signed: Signed, body: bytes) -> bytes:
    mac = hmac.new(key, signed.prefix, hashlib.sha256)
    mac.update(body)
    return signed.written(mac.digest())
