"""How values are written for people: spans of time, instants, and text that users have stored.

Guarantees: no control character of a user's text reaches the terminal (they are shown as escapes),
nor any that turns the direction of writing; no digit is rounded away but in spans of time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from taskengine.insight.words import NONE, plural, span

__all__ = ["NONE", "clean", "first_line", "instant", "json_safe", "plural", "span"]

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def clean(text: str) -> str:
    """The text on one line, its control characters as escapes."""
    return _UNSAFE.sub(_escape, text)


def json_safe(text: str) -> str:
    """JSON text with the same characters written as JSON's own escapes: the same value."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def first_line(text: str | None) -> str:
    """The first line of a text, e.g. of an error."""
    lines = (text or "").strip().splitlines()
    return clean(lines[0]) if lines else ""


def instant(moment: datetime | None) -> str:
    """`2026-11-02 12:00:07Z`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}" if moment else NONE
