"""Where the message of a due execution is, and what it waits for there."""

from __future__ import annotations

from collections.abc import Iterator

from taskengine.insight import redis_state
from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.words import clock, plural, span, times


def delivery(facts: Facts, *, blocked: bool) -> Iterator[Verdict]:
    """What is wrong with its delivery; where nothing else blocks it, its place in line."""
    if wrong := list(_redis(facts)):
        yield from wrong
        return
    if facts.place is not None and facts.place.nowhere and not facts.row.waits_for_key:
        yield _nowhere(facts)
    elif not blocked:
        yield _waiting(facts)


def _redis(facts: Facts) -> Iterator[Verdict]:
    state = facts.redis
    direct = [each.name for each in facts.able if each.direct]
    now = f" ({', '.join(direct)} does so now)" if direct else ""
    match state.memory:
        case redis_state.OFF:
            yield Verdict(
                "pending.redis_off",
                "is due: Redis is switched off, daemons claim straight from Postgres, the oldest"
                f" first{now}",
            )
        case redis_state.AWAY:
            yield Verdict(
                "pending.redis_away",
                "is due, and Redis is away: daemons claim straight from Postgres, the oldest first"
                f"{now}",
                ("taskengine status",),
            )
        case redis_state.FOREIGN:
            yield Verdict(
                "pending.redis_foreign",
                "waits: Redis holds another database's deliveries: give this engine a [redis] prefix"
                " of its own",
            )
        case redis_state.FORGETFUL:
            yield Verdict(
                "pending.redis_forgetful",
                "waits: Redis has lost its memory and is not rebuilt yet: a daemon does it within"
                " seconds",
                ("taskengine rebuild-delivery",),
            )


def _nowhere(facts: Facts) -> Verdict:
    """Fresh ones may only be on their way between the two stores."""
    row = facts.row
    fresh = facts.ago(facts.pending_since)
    check = max(0.0, facts.until(row.check_at))
    when = f"at {clock(row.check_at, facts.at)}" if check else "with its next turn"
    sweep = f"the delivery sweep looks for it {when} and pushes it again"
    if fresh < facts.settings.check_after:
        text = (
            f"has been pending for {span(fresh)}, its message is on its way: if it is lost, {sweep}"
        )
        return Verdict("pending.on_its_way", text)
    return Verdict(
        "pending.lost",
        f"has no message in Redis: it was lost; {sweep}",
        (f"taskengine rebuild-delivery --queue {row.queue}",),
    )


def _waiting(facts: Facts) -> Verdict:
    place = facts.place
    if facts.row.orphanings and facts.able and all(_lanes_full(facts)):
        return Verdict(
            "pending.lane",
            "waits for a place in the quarantine lane: it was orphaned"
            f" {times(facts.row.orphanings)}, and few such executions run at a time, so that they"
            " take no neighbours along",
        )
    if place is not None and place.reserved_at is not None:
        return _reserved(facts, place.reserved_at)
    if facts.able and all(each.is_full for each in facts.able):
        slots = sum(each.slots for each in facts.able)
        return Verdict(
            "pending.full",
            f"waits for a free slot: {plural(len(facts.able), 'daemon')} could run it, all {slots} of"
            f" {plural(slots, 'slot')} busy{_where(facts)}",
        )
    if place is not None and place.rank is None and place.delayed_until is not None:
        return _put_off(facts, place.delayed_until)
    if place is not None and place.rank == 0 and not facts.ahead:
        return Verdict("pending.next", f"is next in line in queue {facts.row.queue!r}")
    return Verdict("pending.line", f"waits its turn{_where(facts)}")


def _lanes_full(facts: Facts) -> Iterator[bool]:
    return (each.lane_is_full(facts.row.orphanings) for each in facts.able)


def _reserved(facts: Facts, at: int) -> Verdict:
    since = max(0.0, facts.at.timestamp() - at / 1e6)
    grace = facts.settings.reserve_grace
    if since < grace:
        return Verdict(
            "pending.reserved",
            f"was taken from its queue {span(since)} ago and is about to be claimed; where its taker"
            f" died it goes back after {span(grace)}",
        )
    return Verdict(
        "pending.reserved_too_long",
        f"was taken from its queue {span(since)} ago and not claimed, its taker died or lost touch:"
        " recovery puts it back, first in line, within 5 s",
    )


def _put_off(facts: Facts, until: int) -> Verdict:
    """Due, and in the delayed set: a daemon that could not claim it has put it there."""
    left = until / 1e6 - facts.at.timestamp()
    if left <= 0:
        return Verdict(
            "pending.promoting", "is due just now, and on its way from the delayed set to its queue"
        )
    return Verdict(
        "pending.put_off",
        f"was put off for another {span(left)} by a daemon that could not claim it: its row was"
        " locked, no thread or place in a lane was free, or that daemon does not know the job",
    )


def _where(facts: Facts) -> str:
    """Its place in line, and how fast that moves, by what."""
    place, pace = facts.place, facts.pace
    if place is None or place.rank is None:
        return ""
    before = ", ".join(f"{count} in {name!r}" for name, count in facts.ahead.items())
    first = f", after {before}, served first" if before else ""
    told = f": number {place.rank + 1} of {place.waiting} in queue {facts.row.queue!r}{first}"
    if pace is None:
        return told
    if not pace.ended:
        return f"{told}; nothing of that queue has ended in the last {span(pace.seconds)}"
    eta = f", so in about {span(facts.eta)}" if not before else ""
    rate = f"{pace.per_minute:.0f}" if pace.per_minute >= 10 else f"{pace.per_minute:.1f}"
    basis = f"({pace.ended} ended in the last {span(pace.seconds)})"
    return f"{told}, which moves at {rate} a minute {basis}{eta}"
