"""`POST /webhooks/{source}`: read within bounds, verify, understand, store, answer.

Guarantees: no more of a body is held than its source allows; nothing is read as JSON before its
signature is right; a request that is refused leaves no row; Postgres away is 503, so that the
sender tries again; whatever the headers hold is no 500; nothing of a secret, a signature or a body
is in an answer, a log or a label.
"""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from taskengine.config import Source
from taskengine.errors import Away, DataRejected, MigrationError, PayloadError
from taskengine.lifecycle.parts import Parts
from taskengine.model.envelope import digest_of, read_envelope
from taskengine.model.payload import encode, loads_strict
from taskengine.model.signatures import Headers, Refused, verify
from taskengine.store.webhooks import NewEvent
from taskengine.telemetry.events import emit
from taskengine.web.intake import keep
from taskengine.web.throttle import Throttle

_READ_SECONDS = 10.0
_STORE_SECONDS = 5.0
_AT_ONCE = 256
_QUIET_SECONDS = 10.0
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_KEPT_HEADER = re.compile(
    rb"content-type|user-agent|x-everee-webhook-(audience|timestamp)|"
    rb"webhook-(id|timestamp)|x-github-(event|delivery|hook-id)"
)


class Answer(NamedTuple):
    """What a request is answered with. `result` is the word of the metric."""

    result: str
    status: int
    body: dict[str, str]
    headers: dict[str, str] | None = None


_STATUS = {
    "accepted": "accepted",
    "undispatched": "accepted",
    "duplicate": "duplicate",
    "ignored": "ignored",
    "invalid": "invalid",
}
_UNKNOWN = Answer("unknown_source", 404, {"error": "no such source"})
_TOO_LARGE = Answer("too_large", 413, {"error": "too large"}, {"connection": "close"})
_SLOW = Answer("slow", 408, {"error": "too slow"}, {"connection": "close"})
_LATER = Answer("unavailable", 503, {"error": "try again later"}, {"retry-after": "5"})
_UNUSABLE = Answer("malformed", 400, {"error": "unusable body"})


class Ingest:
    """The endpoint. It refuses more than so many requests at once, whoever sends them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._at_once = 0
        self._refusals = Throttle(parts.clock, _QUIET_SECONDS)

    async def receive(self, request: Request) -> Response:
        """Answer; count and time it."""
        begun = self._parts.clock.monotonic()
        name = request.path_params["source"]
        source = self._parts.config.webhooks.sources.get(name)
        answer = await self._bounded(request, name, source) if source else _UNKNOWN
        self._tell(name if source else "", answer, self._parts.clock.monotonic() - begun)
        return JSONResponse(answer.body, answer.status, answer.headers)

    async def _bounded(self, request: Request, name: str, source: Source) -> Answer:
        if self._at_once >= _AT_ONCE:
            return _LATER
        self._at_once += 1
        try:
            async with asyncio.timeout(_READ_SECONDS):
                body = await _read(request, source.max_body)
        except TimeoutError:
            return _SLOW
        except ClientDisconnect:
            return _UNUSABLE
        else:
            return _TOO_LARGE if body is None else await self._judge(request, name, source, body)
        finally:
            self._at_once -= 1

    async def _judge(self, request: Request, name: str, source: Source, body: bytes) -> Answer:
        """The signature first; only what is genuine is looked into."""
        headers: Headers = request.headers.raw
        verdict = verify(source, headers, body, self._parts.clock.now().timestamp())
        if isinstance(verdict, Refused):
            return Answer(verdict.reason.value, 401, {"error": "signature refused"})
        if verdict.key_index:
            emit("webhook.old_key", source=name, key_index=verdict.key_index)
        try:
            event = _event(name, source, headers, body)
        except PayloadError as error:
            return _UNUSABLE._replace(body={"error": error.problem})
        return await self._keep(source, event)

    async def _keep(self, source: Source, event: NewEvent) -> Answer:
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                kept = await keep(self._parts, source, event)
        except (Away, MigrationError, TimeoutError) as error:
            emit("webhook.unavailable", source=event.source, error=error)
            return _LATER
        except DataRejected as error:
            emit("webhook.rejected", source=event.source, error=error)
            return _UNUSABLE
        return Answer(kept.result, 200, {"status": _STATUS[kept.result]})

    def _tell(self, source: str, answer: Answer, seconds: float) -> None:
        emit("webhook.received", source=source, result=answer.result, seconds=seconds)
        if answer.status >= 400 and answer is not _LATER:
            count = self._refusals(source, answer.result)
            if count:
                emit("webhook.refused", source=source, reason=answer.result, count=count)


async def _read(request: Request, limit: int) -> bytes | None:
    """The body as it came; None as soon as it is known to be longer than `limit`."""
    said = request.headers.get("content-length", "")
    if _LENGTH.fullmatch(said) and int(said) > limit:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            return None
    return bytes(body)


def _event(name: str, source: Source, headers: Headers, body: bytes) -> NewEvent:
    """The row of a genuine body; `PayloadError` where it is no JSON that can be used."""
    digest = digest_of(body)
    envelope = read_envelope(source, headers, loads_strict(body), digest)
    return NewEvent(
        source=name,
        event_id=envelope.event_id,
        type=envelope.type,
        status=envelope.status,
        body=body,
        body_sha256=digest,
        headers=encode(_kept(headers)),
        occurred_at=envelope.occurred_at,
        error=envelope.problem,
    )


def _kept(headers: Headers) -> dict[str, str]:
    """The few headers that help to understand an event later; never a signature."""
    return {
        name.decode("ascii"): value[:500].decode("ascii")
        for name, value in headers
        if _KEPT_HEADER.fullmatch(name) and value.isascii() and b"\0" not in value
    }
