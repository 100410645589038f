"""Why a pending execution does not run: what is in its way, what stops it most first."""

from __future__ import annotations

from collections.abc import Iterator

from taskengine.insight import redis_state
from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.words import brief, clock, plural, span, times


def pending(facts: Facts) -> list[Verdict]:
    """Never empty."""
    found = [*_time(facts), *_queue(facts), *_daemons(facts), *_key(facts)]
    if facts.until(facts.row.run_at) <= 0:
        found += _delivery(facts)
        if not found:
            found += _room(facts)
    if not found:
        found += _line(facts)
    return found + list(_verify(facts))


def _time(facts: Facts) -> Iterator[Verdict]:
    row, last = facts.row, facts.last
    left = facts.until(row.run_at)
    if left <= 0:
        return
    move = last.move if last is not None and last.move != "redriven" else ""
    due = f"due in {span(left)}"
    if move in ("retried", "orphaned"):
        yield Verdict("pending.retry", f"is waiting for its retry, {due}")
    elif move == "snoozed":
        yield Verdict(
            "pending.snoozed", f"was snoozed ({brief(last.reason if last else '')}), {due}"
        )
    else:
        yield Verdict("pending.early", f"is not due yet: {due}, at {clock(row.run_at, facts.at)}")


def _queue(facts: Facts) -> Iterator[Verdict]:
    row = facts.row
    if row.queue not in facts.settings.queues:
        yield Verdict(
            "pending.unlisted",
            f"waits in queue {row.queue!r}, which is not in [engine] queues any more: list it again",
        )
    if row.paused_at is not None:
        why = f" ({brief(row.pause_reason)})" if row.pause_reason else ""
        yield Verdict(
            "pending.paused",
            f"waits: queue {row.queue!r} was paused by {row.paused_by}"
            f" {span(facts.ago(row.paused_at))} ago{why}",
            (f"taskengine queues resume {row.queue}",),
        )
    if row.definition_error is not None:
        yield Verdict("pending.broken", f"waits: its job is skipped: {brief(row.definition_error)}")


def _daemons(facts: Facts) -> Iterator[Verdict]:
    row = facts.row
    if not facts.living:
        yield Verdict("pending.no_daemon", "waits: no daemon runs", ("taskengine run",))
    elif not facts.polling:
        yield Verdict(
            "pending.unpolled",
            f"waits: no running daemon polls queue {row.queue!r}: add it to [workers] queues of one",
        )
    elif not facts.able:
        yield Verdict(
            "pending.unknown_job",
            f"waits: no daemon that polls queue {row.queue!r} knows the job {row.job!r}: "
            "deploy it, or add its module to [jobs] modules",
        )


def _key(facts: Facts) -> Iterator[Verdict]:
    row, key = facts.row, facts.key
    if key is None:
        return
    if key.holder is not None:
        since = f" since {clock(key.holder_since, facts.at)}" if key.holder_since else ""
        where = f" on {key.holder_worker}" if key.holder_worker else ""
        yield Verdict(
            "pending.key_held",
            f"waits for its exclusive key {row.exclusive_key!r}, held by execution {key.holder}"
            f" ({key.holder_job}{since}{where})",
            (f"taskengine why {key.holder}",),
        )
    if key.oldest is not None:
        yield Verdict(
            "pending.key_older",
            f"has {plural(key.older, 'older execution')} of its exclusive key"
            f" {row.exclusive_key!r} before it, the oldest of them {key.oldest}",
            (f"taskengine why {key.oldest}",),
        )
    elif key.holder is None and row.waits_for_key:
        yield Verdict(
            "pending.key_free",
            f"waits for its exclusive key, which is free: pushed within {span(facts.settings.sweep)}",
        )


def _delivery(facts: Facts) -> Iterator[Verdict]:
    row, place, memory = facts.row, facts.place, facts.redis.memory
    rebuild = (f"taskengine rebuild-delivery --queue {row.queue}",)
    if memory == redis_state.AWAY:
        yield Verdict(
            "pending.redis_away",
            "waits while Redis is away: daemons claim straight from Postgres, the oldest first",
        )
    elif memory == redis_state.FOREIGN:
        yield Verdict("pending.redis_foreign", "waits: Redis holds another database's deliveries")
    elif memory == redis_state.FORGETFUL:
        yield Verdict(
            "pending.redis_forgetful",
            "waits: Redis has lost its memory and is not rebuilt yet",
            ("taskengine rebuild-delivery",),
        )
    elif place is not None and place.nowhere and not row.waits_for_key:
        left = max(0.0, facts.until(row.check_at)) + facts.settings.sweep
        yield Verdict(
            "pending.lost",
            f"has no message in Redis: the delivery sweep pushes it within {span(left)}",
            rebuild,
        )
    elif place is not None and place.reserved_at is not None:
        since = max(0.0, facts.at.timestamp() - place.reserved_at / 1e6)
        yield Verdict(
            "pending.reserved",
            f"was taken from its queue {span(since)} ago and is about to be claimed; where its taker"
            f" died it goes back after {span(facts.settings.reserve_grace)}",
        )


def _room(facts: Facts) -> Iterator[Verdict]:
    row, able = facts.row, facts.able
    if row.orphanings and able and all(each.lane_is_full(row.orphanings) for each in able):
        yield Verdict(
            "pending.lane",
            f"waits for a place in the quarantine lane: it was orphaned {times(row.orphanings)}, and"
            " few such executions run at a time, so that they take no neighbours along",
        )
    elif able and all(each.is_full for each in able):
        yield Verdict(
            "pending.full",
            f"waits for a free slot: {plural(len(able), 'daemon')} could run it, and all"
            f" {sum(each.slots for each in able)} slots are busy{_where(facts)}",
        )


def _line(facts: Facts) -> Iterator[Verdict]:
    if facts.redis.memory == redis_state.OFF:
        yield Verdict(
            "pending.direct", "is due: a daemon claims it straight from Postgres (Redis is off)"
        )
    elif facts.place is not None and facts.place.rank == 0 and not facts.ahead:
        yield Verdict("pending.next", f"is next in line in queue {facts.row.queue!r}")
    else:
        yield Verdict("pending.line", f"waits its turn{_where(facts)}")


def _where(facts: Facts) -> str:
    """Its place in line, and how fast that moves."""
    place, pace = facts.place, facts.pace
    if place is None or place.rank is None:
        return ""
    before = ", ".join(f"{count} in {name!r}" for name, count in facts.ahead.items())
    first = f", after {before}, served first" if before else ""
    told = f": number {place.rank + 1} of {place.waiting} in queue {facts.row.queue!r}{first}"
    if pace is None or not pace.ended:
        return f"{told}; nothing of that queue has ended in the last {span(300)}"
    eta = f", so about {span(facts.eta)}" if not before else ""
    return f"{told}, which moves at {pace.per_minute:.0f} a minute{eta}"


def _verify(facts: Facts) -> Iterator[Verdict]:
    if facts.row.verify_next and facts.row.on_interrupt != "retry":
        yield Verdict(
            "pending.verify", "is asked first whether it was done already: it was cut short before"
        )
