"""Writes what running jobs said: progress and log lines, in batches, at most a second later.

Losing a line loses no work: where Postgres refuses or is away, lines are kept for the next turn and
dropped, counted, beyond a bound. No secret is kept (see `redact`).
"""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.errors import Away, DataRejected
from taskengine.lifecycle.inflight import Flight, Inflight
from taskengine.lifecycle.parts import Parts
from taskengine.model.payload import encode_result
from taskengine.model.surroundings import LogLine
from taskengine.model.text import shown
from taskengine.runtime.service import Periodic
from taskengine.store import executions, logs
from taskengine.telemetry.events import emit
from taskengine.telemetry.redact import clean_text, hide

_KEPT_LINES = 10_000
_FIELDS_BYTES = 16_384
_MESSAGE_CHARS = 8_000
_LEVEL_CHARS = 20


class Scribe(Periodic):
    """The flush of progress and logs, each second and with each settlement."""

    name = "scribe"

    def __init__(self, parts: Parts, inflight: Inflight) -> None:
        super().__init__(parts.clock, 1.0)
        self._parts = parts
        self._inflight = inflight
        self._lines: list[logs.NewLine] = []

    async def tick(self) -> bool:
        """Write what has changed since the last turn."""
        flights = [f for f in self._inflight.take_changed() if not f.ended]
        await self._write_progress(flights)
        await self.flush(flights)
        return False

    async def flush(self, flights: Sequence[Flight]) -> None:
        """Write the log lines of these flights; never raises for a store that is away."""
        for flight in flights:
            for line in flight.ctx.take_logs():
                self._lines.append(_line(flight, line))
            _dropped(flight.ctx.take_dropped())
        if self._lines:
            await self._write_lines()

    async def _write_lines(self) -> None:
        lines, self._lines = self._lines, []
        try:
            async with self._parts.store.connection() as c:
                await logs.append(c, lines)
        except Away:
            self._lines = (lines + self._lines)[-_KEPT_LINES:]
            _dropped(len(lines) - _KEPT_LINES)
        except DataRejected:
            _dropped(len(lines))

    async def _write_progress(self, flights: Sequence[Flight]) -> None:
        rows = [
            (f.claim.id, f.claim.token, *f.ctx.last_progress())
            for f in flights
            if f.ctx.last_progress()[0] is not None
        ]
        if rows:
            async with self._parts.store.connection() as c:
                await executions.progress(c, sorted(rows))


def _line(flight: Flight, line: LogLine) -> logs.NewLine:
    at, level, message, fields = line
    text = encode_result(hide(fields), _FIELDS_BYTES)[0] if fields else None
    return logs.NewLine(
        flight.claim.id,
        flight.claim.attempt,
        at,
        shown(level)[:_LEVEL_CHARS],
        clean_text(shown(message)[: 2 * _MESSAGE_CHARS])[:_MESSAGE_CHARS],
        text,
    )


def _dropped(count: int) -> None:
    if count > 0:
        emit("execution.log_dropped", count=count)
