"""Makes a value fit to be logged: no secret in it, and nothing that could break the log.

Guarantees: what comes out is made of str, int, float, bool, None, lists and dicts, of bounded size;
never raises, whatever `repr` does; values under secret names, and passwords inside URLs, DSNs and
headers in any text, are replaced by `***`. NaN and infinities become text; lone surrogates are
escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

HIDDEN = "***"
_MAX_TEXT = 20_000
_MAX_ITEMS = 200
_MAX_DEPTH = 6

_SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|secret|token|authorization|signature|credential|cookie|dsn"
    r"|^keys?$|(api|access|private|signing|webhook|secret)[_-]?keys?",
    re.IGNORECASE,
)
# each with what a text must hold (case folded) for a match: looking for that is quick
_SECRET_TEXT = (
    # scheme://user:password@host; the password may itself hold "@", ":" and "/"
    (
        ("://",),
        re.compile(r"([a-z][a-z0-9+.-]{0,20}://[^\s:/@]{0,200}:)\S{1,1000}@", re.IGNORECASE),
        r"\1***@",
    ),
    # password=…, "token": "…", Authorization: Bearer …
    (
        ("passw", "passphrase", "secret", "token", "authorization", "signature", "api"),
        re.compile(
            r"""((?:passw(?:or)?d|passphrase|secret|token|authorization|signature|api[_-]?key)"""
            r"""["']?\s{0,3}[=:]\s{0,3})((?:bearer|basic)\s+)?("[^"]*"|'[^']*'|[^\s,;&"'}\])]+)""",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
    (
        ("bearer", "basic"),
        re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE),
        r"\1 ***",
    ),
    (("whsec_",), re.compile(r"\bwhsec_[\w+/=-]+"), "whsec_***"),
    # Postgres, of a row that it refuses: all of its values, the payload among them
    (
        ("failing row contains",),
        re.compile(r"(Failing row contains \().*", re.IGNORECASE),
        r"\1***)",
    ),
)


def clean(value: Any, name: str = "", depth: int = 0) -> Any:
    """The value as plain data without secrets; `name` is the key that it stands under."""
    try:
        if value is not None and name and _is_secret(name):
            return HIDDEN
        return _plain(value, depth)
    except Exception as error:  # whatever a foreign object does when looked at
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def hide(value: Any, name: str = "", depth: int = 0) -> Any:
    """The value with its secrets hidden and otherwise as it is: what a job logs keeps its types."""
    if value is not None and name and _is_secret(name):
        return HIDDEN
    if type(value) is str:
        return clean_text(value)
    if depth >= _MAX_DEPTH:
        return value
    if type(value) is dict:
        return {
            key: hide(each, key if type(key) is str else "", depth + 1)
            for key, each in value.items()
        }
    return [hide(each, "", depth + 1) for each in value] if type(value) is list else value


def clean_text(text: str) -> str:
    """The text without secrets and without lone surrogates, cut where it is very long."""
    folded = text.casefold()
    for hints, pattern, instead in _SECRET_TEXT:
        for hint in hints:
            if hint in folded:
                text = pattern.sub(instead, text)
                break
    if len(text) > _MAX_TEXT:
        half = _MAX_TEXT // 2  # the end matters most: there a traceback says what happened
        text = f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


@lru_cache(maxsize=2048)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value
    if kind is str:
        return clean_text(value)
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if depth >= _MAX_DEPTH:
        return "…"
    return _composite(value, depth)


def _composite(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        items = list(value.items())[:_MAX_ITEMS]
        return {clean_text(str(key)): clean(each, str(key), depth + 1) for key, each in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [clean(each, "", depth + 1) for each in list(value)[:_MAX_ITEMS]]
    if isinstance(value, BaseException):
        return clean_text(f"{type(value).__name__}: {value}")
    return clean_text(value if isinstance(value, str) else repr(value))
