"""Where the message of a due execution is, and what it waits for there."""

from __future__ import annotations

from collections.abc import Iterator

from taskengine.insight import redis_state
from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.why.in_line import lane, slots, turn, where
from taskengine.insight.words import clock, span


def delivery(facts: Facts, *, blocked: bool) -> Iterator[Verdict]:
    """What is wrong with its delivery; where nothing else blocks it, its place in line. Nothing is
    delivered, swept or rebuilt of a queue that is not listed."""
    if not facts.is_listed:
        return
    if facts.redis.memory in (redis_state.OFF, redis_state.AWAY):
        yield from _direct(facts, blocked=blocked)
    elif wrong := _redis(facts):
        yield wrong
    elif facts.place is not None and facts.place.nowhere and not facts.row.waits_for_key:
        yield _nowhere(facts)
    elif not blocked:
        yield next(_waiting(facts))


def _direct(facts: Facts, *, blocked: bool) -> Iterator[Verdict]:
    """Redis off is no fault: what holds it up comes first. Away, it is one."""
    direct = [each.name for each in facts.able if each.direct]
    how = "daemons claim straight from Postgres, the oldest first"
    now = f"{how} ({', '.join(direct)} does so now)" if direct else how
    held = [] if blocked else [*lane(facts), *slots(facts)][:1]
    line = "" if blocked or held else where(facts)
    if facts.redis.memory == redis_state.OFF:
        yield from held
        yield Verdict("pending.redis_off", f"is due: Redis is switched off, {now}{line}")
        return
    away = f"is due, and Redis is away: {now}{line}"
    yield Verdict("pending.redis_away", away, ("taskengine status",))
    yield from held


def _redis(facts: Facts) -> Verdict | None:
    """What makes its memory useless."""
    if facts.redis.memory == redis_state.FOREIGN:
        return Verdict(
            "pending.redis_foreign",
            "waits: Redis holds another database's deliveries: give this engine a [redis] prefix"
            " of its own",
        )
    if facts.redis.memory == redis_state.FORGETFUL:
        return Verdict(
            "pending.redis_forgetful",
            "waits: Redis has lost its memory and is not rebuilt yet: a daemon does it within"
            " seconds",
            ("taskengine rebuild-delivery",),
        )
    for each in facts.redis.strange:
        if each.queue == facts.row.queue:
            return Verdict(
                "pending.redis_strange",
                f"waits: the key {each.key!r} of its queue holds a {each.found} in Redis: a daemon"
                f" writes it anew within {span(facts.settings.divergence)}",
                (f"taskengine rebuild-delivery --queue {each.queue}",),
            )
    return None


def _nowhere(facts: Facts) -> Verdict:
    """Fresh ones may only be on their way between the two stores."""
    row = facts.row
    fresh = facts.ago(facts.pending_since)
    check = max(0.0, facts.until(row.check_at))
    when = f"at {clock(row.check_at, facts.at)}" if check else "with its next turn"
    sweep = f"the delivery sweep looks for it {when} and pushes it again{_sooner(facts, check)}"
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


def _waiting(facts: Facts) -> Iterator[Verdict]:
    """The first of what may hold it up. A message that is taken or put off stands in no line."""
    yield from lane(facts)
    place = facts.place
    if place is not None and place.reserved_at is not None:
        yield _reserved(facts, place.reserved_at)
    yield from slots(facts)
    if place is not None and place.rank is None and place.delayed_until is not None:
        yield _put_off(facts, place.delayed_until)
    yield turn(facts)


def _sooner(facts: Facts, check: float) -> str:
    """A message that was seen in its place is not looked for again so soon by the sweep."""
    every = facts.settings.divergence
    if check <= every:
        return ""
    return f", unless the comparison of both stores, every {span(every)}, finds it missing sooner"


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
