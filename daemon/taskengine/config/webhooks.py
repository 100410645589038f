"""The section `[webhooks]`: who may send events here, and how one knows that it was they.

Guarantees: fail closed. A source without a key, or with a blank one, or with one that does not
decode, is refused at start; no key is ever in an error's text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from taskengine.config.values import Int, Name, Seconds, Section, Texts, from_json

_HEADER = re.compile(r"header:[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_POINTER = re.compile(r"(/([^/~]|~[01])*)+")
_DEFAULT_MIN_AGE = 300.0


def _place(value: str) -> str:
    if not (_HEADER.fullmatch(value) or _POINTER.fullmatch(value)):
        raise ValueError('must be "header:<name>" or a JSON pointer such as "/id"')
    return value.lower() if value.startswith("header:") else value


def _lines(value: Any) -> Any:
    """Keys from one text: a JSON list, or one key a line; blank lines are no keys."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return from_json(value)
    return [line.strip() for line in value.splitlines() if line.strip()]


def _some(keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    if not keys:
        raise ValueError("at least one key is needed: without one anybody could send events")
    if any(not key.get_secret_value().strip() for key in keys):
        raise ValueError("a key is blank: with it anybody could sign events")
    return keys


def decode_key(key: str, encoding: str) -> bytes:
    """The key's bytes; ValueError (without the key) where it is not of this encoding."""
    try:
        if encoding == "hex":
            return bytes.fromhex(key)
        if encoding == "base64":
            return base64.b64decode(key, validate=True)
        return key.encode()
    except (binascii.Error, ValueError):
        raise ValueError(f"a key is not {encoding}: set key_encoding to what it is") from None


Place = Annotated[str, AfterValidator(_place)]
Keys = Annotated[tuple[SecretStr, ...], BeforeValidator(_lines), AfterValidator(_some)]


class Source(Section):
    """One sender. `id` and `type` say where an event's are; without `id` the body's SHA-256."""

    scheme: Literal["everee", "standard", "stripe", "github"]
    keys: Keys
    tolerance: Seconds = Field(default=120.0, ge=1.0, le=86_400.0)
    key_encoding: Literal["raw", "hex", "base64"] = "raw"
    id: Place | None = None
    type: Place | None = None
    job: str = Field(min_length=1, max_length=255)
    queue: Name | None = None
    types: Texts = Field(default=("*",), min_length=1)
    max_body: Int = Field(default=262_144, ge=1, le=16 * 1024 * 1024)

    @model_validator(mode="after")
    def _keys_decode(self) -> Source:
        if not all(self.key_bytes()):
            raise ValueError("a key decodes to nothing: with it anybody could sign events")
        return self

    def key_bytes(self) -> tuple[bytes, ...]:
        """Each key as HMAC takes it; under `standard`, `whsec_…` is base64 whatever is set."""
        return tuple(self._bytes(key.get_secret_value().strip()) for key in self.keys)

    def _bytes(self, key: str) -> bytes:
        if self.scheme == "standard" and key.startswith("whsec_"):
            return decode_key(key.removeprefix("whsec_"), "base64")
        return decode_key(key, self.key_encoding)


def _age(value: float) -> float:
    return value if value > 0 else _DEFAULT_MIN_AGE


class Webhooks(Section):
    """The reconciler of stranded events, and the sources."""

    min_age: Annotated[Seconds, AfterValidator(_age)] = _DEFAULT_MIN_AGE
    max_recoveries: Int = Field(default=5, ge=1, le=1000)
    limit: Int = Field(default=200, ge=1, le=10_000)
    every: Seconds = Field(default=300.0, ge=0.05, le=86_400.0)
    sources: Mapping[Name, Source] = Field(default_factory=dict)
