"""Spans, counts and moments in words; plain text, not made safe for a terminal.

Guarantees: the same values give the same words; no digit is rounded away but in spans of time.
"""

from __future__ import annotations

from datetime import UTC, datetime

from taskengine.telemetry.redact import clean_text

NONE = "–"  # noqa: RUF001
_BRIEF = 300


def span(seconds: float | None) -> str:
    """`0.8 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `4 d 3 h`."""
    if seconds is None:
        return NONE
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def plural(count: int, noun: str) -> str:
    """`1 daemon`, `2 daemons`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def clock(moment: datetime, now: datetime) -> str:
    """`10:02:07Z`, with its date where that is not today's."""
    utc = moment.astimezone(UTC)
    same_day = utc.date() == now.astimezone(UTC).date()
    return f"{utc:%H:%M:%SZ}" if same_day else f"{utc:%Y-%m-%d %H:%M:%SZ}"


def brief(text: str | None) -> str:
    """The first line of an error or a reason, without secrets, 300 characters at the most."""
    line = next(iter(clean_text(text or "").strip().splitlines()), "")
    return line if len(line) <= _BRIEF else f"{line[:_BRIEF]}…"
