"""Text that Postgres can store, whatever user code hands over."""

from __future__ import annotations


def storable(text: str) -> str:
    """Without NUL and lone surrogates, which Postgres refuses: they are shown as escapes."""
    return text.replace("\x00", "\\u0000").encode("utf-8", "backslashreplace").decode("utf-8")


def shown(value: object) -> str:
    """`str(value)` as storable text, whatever the value is and does when looked at."""
    try:
        return storable(str(value))
    except BaseException:  # a user's object may raise anything, even end the process
        return "(cannot be shown)"
