"""A webhook as its sender makes it: signed under the scheme `everee` and posted over HTTP."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
from datetime import datetime

_SECONDS = 10.0


def body_of(event_id: str, at: datetime) -> bytes:
    """An event in Everee's envelope."""
    event = {
        "id": event_id,
        "type": "example.greeting",
        "timestamp": int(at.timestamp()),
        "data": {"name": "world"},
    }
    return json.dumps(event).encode()


def signed(key: str, body: bytes, at: datetime) -> dict[str, str]:
    """The headers: an HMAC-SHA256 over `timestamp.body`, in hex."""
    stamp = str(int(at.timestamp()))
    digest = hmac.new(key.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json",
        "x-everee-webhook-timestamp": stamp,
        "x-everee-webhook-signature": f"v1={digest}",
    }


def post(host: str, port: int, path: str, body: bytes, headers: dict[str, str]) -> int:
    """Send it (blocking, past any proxy); the status of the answer."""
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
