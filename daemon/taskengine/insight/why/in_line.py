"""Its turn: what holds up one whose message is in its place, and where in line it stands."""

from __future__ import annotations

from collections.abc import Iterator

from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.words import plural, span, times
from taskengine.store.why import COUNTED


def lane(facts: Facts) -> Iterator[Verdict]:
    """No daemon may take one more that was orphaned so often."""
    often = facts.row.orphanings
    if often and facts.able and all(each.lane_is_full(often) for each in facts.able):
        yield Verdict(
            "pending.lane",
            f"waits for a place in the quarantine lane: it was orphaned {times(often)}, and few such"
            " executions run at a time, so that they take no neighbours along",
        )


def slots(facts: Facts) -> Iterator[Verdict]:
    """Every daemon that could run it is full."""
    if facts.able and all(each.is_full for each in facts.able):
        count = sum(each.slots for each in facts.able)
        yield Verdict(
            "pending.full",
            f"waits for a free slot: {plural(len(facts.able), 'daemon')} could run it, all {count} of"
            f" {plural(count, 'slot')} busy{where(facts)}",
        )


def turn(facts: Facts) -> Verdict:
    """Nothing but others before it."""
    if facts.before == 0 and not facts.ahead:
        return Verdict("pending.next", f"is next in line in queue {facts.row.queue!r}")
    return Verdict("pending.line", f"waits its turn{where(facts)}")


def where(facts: Facts) -> str:
    """Its place in line, and how fast that moves, by what."""
    standing, pace = _standing(facts), facts.pace
    if not standing or pace is None:
        return standing
    if not pace.ended:
        return f"{standing}; nothing of that queue has ended in the last {span(pace.seconds)}"
    eta = f", so in about {span(facts.eta)}" if facts.eta is not None and not facts.ahead else ""
    rate = f"{pace.per_minute:.0f}" if pace.per_minute >= 10 else f"{pace.per_minute:.1f}"
    basis = f"({pace.ended} ended in the last {span(pace.seconds)})"
    return f"{standing}, which moves at {rate} a minute {basis}{eta}"


def _standing(facts: Facts) -> str:
    """A long line is counted by Postgres up to a bound."""
    queue, before, waiting = facts.row.queue, facts.before, facts.waiting
    ahead = ", ".join(f"{_count(count, facts)} in {name!r}" for name, count in facts.ahead.items())
    first = f", after {ahead}, served first" if ahead else ""
    if before is not None and waiting is not None:
        return f": number {before + 1} of {_count(waiting, facts)} in queue {queue!r}{first}"
    if facts.lines is not None and queue in facts.lines:
        return f": behind at least {COUNTED} in queue {queue!r}{first}"
    return ""


def _count(count: int, facts: Facts) -> str:
    return f"at least {count}" if facts.lines is not None and count >= COUNTED else str(count)
