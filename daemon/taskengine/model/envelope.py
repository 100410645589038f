"""What a genuine webhook says of itself: its id, its type, its time, and whether the type is known.

Guarantees: never raises, whatever the body holds; an event always has an id that can be stored (the
sender's, or the body's SHA-256); what is wrong with an envelope is said in words, without its
values.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from taskengine.config import Source
from taskengine.model.payload import MISSING, JsonValue, Missing, at_pointer, encode
from taskengine.model.signature_schemes import Headers

_MAX_TEXT = 255
_PRINTABLE = re.compile(rb"[ -~]{1,255}")
_MILLISECONDS = 10**11  # numbers from here on are milliseconds (Everee does not say which it sends)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Everee's envelope is fixed; elsewhere the configuration says where things are.
_PLACES: Final = {"everee": ("/id", "/type")}
_TIMES: Final = {"everee": "/timestamp", "stripe": "/created", "standard": "/timestamp"}


class Envelope(NamedTuple):
    """`problem`: why the event is stored as invalid; `known`: whether its type is one of ours."""

    event_id: str
    type: str | None
    occurred_at: datetime | None
    known: bool
    problem: str | None

    @property
    def status(self) -> str:
        if self.problem is not None:
            return "invalid"
        return "received" if self.known else "ignored"


def read_envelope(source: Source, headers: Headers, value: JsonValue, digest: bytes) -> Envelope:
    """The envelope of a body whose JSON value is `value` and whose SHA-256 is `digest`."""
    usual_id, usual_type = _PLACES.get(source.scheme, (None, None))
    event_id, id_problem = _read("id", source.id or usual_id, headers, value)
    type_, type_problem = _read("type", source.type or usual_type, headers, value)
    problem = id_problem or type_problem or _tenant_problem(source, headers, value)
    return Envelope(
        event_id or f"sha256:{digest.hex()}",
        type_,
        _time(at_pointer(value, _TIMES[source.scheme])) if source.scheme in _TIMES else None,
        any(fnmatchcase(type_ or "", pattern) for pattern in source.types),
        problem,
    )


def digest_of(body: bytes) -> bytes:
    """The body's SHA-256: what an event without id is known by."""
    return hashlib.sha256(body).digest()


def payload_of(event_id: int, source: str, type_: str | None) -> str:
    """The payload (JSON text) of an event's execution, however it is dispatched."""
    return encode({"webhook_event_id": event_id, "source": source, "type": type_})


def _read(
    what: str, place: str | None, headers: Headers, value: JsonValue
) -> tuple[str | None, str | None]:
    """(text, problem) of the id or the type; neither where the source says no place for it."""
    if place is None:
        return None, None
    if place.startswith("header:"):
        found: object = _header(headers, place.removeprefix("header:").encode())
    else:
        found = at_pointer(value, place)
    text = _text(found)
    if text is None:
        return None, f"no usable {what} at {place}: expected 1 to {_MAX_TEXT} bytes of text"
    return text, None


def _header(headers: Headers, name: bytes) -> object:
    """The one header of this name, if it is plain printable text."""
    values = [value for key, value in headers if key.lower() == name.lower()]
    usable = len(values) == 1 and _PRINTABLE.fullmatch(values[0])
    return values[0].decode("ascii") if usable else MISSING


def _text(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 256:
        return str(value)
    return value if isinstance(value, str) and 0 < len(value.encode()) <= _MAX_TEXT else None


def _tenant_problem(source: Source, headers: Headers, value: JsonValue) -> str | None:
    """Everee: a company's event or a partner's, never both, and as the audience header says."""
    if source.scheme != "everee" or not isinstance(value, dict):
        return None
    tenants = {"company": "companyId" in value, "partner": "partnerId" in value}
    if all(tenants.values()):
        return "holds both companyId and partnerId"
    audience = _header(headers, b"x-everee-webhook-audience")
    if any(tenants.values()) and not tenants.get(str(audience), True):
        return "the audience header contradicts the body"
    return None


def _time(value: JsonValue | Missing) -> datetime | None:
    """A number of seconds or milliseconds since 1970, or an ISO 8601 text with its offset."""
    if isinstance(value, str):
        return _iso(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
        seconds = number / 1000 if abs(number) >= _MILLISECONDS else number
        return _EPOCH + timedelta(seconds=seconds)
    except (ArithmeticError, ValueError):
        return None


def _iso(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
