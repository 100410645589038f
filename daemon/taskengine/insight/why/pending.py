"""Why a pending execution does not run: what is in its way, what stops it most first."""

from __future__ import annotations

from collections.abc import Iterator

from taskengine.insight.why.begun import begun, verify_first
from taskengine.insight.why.delivery import delivery
from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.words import brief, clock, plural, span


def pending(facts: Facts) -> list[Verdict]:
    """Never empty. What concerns its delivery is asked only where nothing else holds it."""
    found = [*_time(facts), *_queue(facts), *_job(facts), *_daemons(facts)]
    if facts.is_due:
        found += _key(facts)
        found += delivery(facts, blocked=bool(found))
    return [*found, *verify_first(facts), *begun(facts), *_definition(facts)]


def _time(facts: Facts) -> Iterator[Verdict]:
    row, last = facts.row, facts.last
    if facts.is_due:
        return
    due = f"due in {span(facts.until(row.run_at))}"
    move = last.move if last is not None else ""
    reason = f" ({brief(last.reason)})" if last is not None and last.reason else ""
    match move:
        case "retried":
            yield Verdict("pending.retry", f"is waiting for its retry, {due}")
        case "orphaned":
            yield Verdict(
                "pending.retry_after_orphaning",
                f"was lost with its worker and is waiting to be run again, {due}",
            )
        case "snoozed":
            said = "" if reason == " (snoozed)" else reason
            yield Verdict("pending.snoozed", f"was snoozed by its own body{said}, {due}")
        case "released":
            yield Verdict("pending.released", f"was given back unbegun{reason}, {due}")
        case _:
            at = clock(row.run_at, facts.at)
            yield Verdict("pending.early", f"is not due yet: {due}, at {at}")


def _queue(facts: Facts) -> Iterator[Verdict]:
    row = facts.row
    if row.queue not in facts.settings.queues:
        yield Verdict(
            "pending.unlisted",
            f"waits in queue {row.queue!r}, which is not in [engine] queues any more: list it again",
        )
    if row.paused_at is not None:
        why = f": {brief(row.pause_reason)}" if row.pause_reason else ""
        since = clock(row.paused_at, facts.at)
        yield Verdict(
            "pending.paused",
            f"waits in queue {row.queue!r}, which {row.paused_by} paused at {since}{why}",
            (f"taskengine queues resume {row.queue}",),
        )


def _job(facts: Facts) -> Iterator[Verdict]:
    """Claims take the settings from the definition: without one nothing runs."""
    if not facts.row.is_defined:
        yield Verdict(
            "pending.undefined",
            f"waits: job {facts.row.job!r} has no definition any more: a daemon that knows the job"
            " makes it anew when it starts",
        )


def _daemons(facts: Facts) -> Iterator[Verdict]:
    row = facts.row
    draining = [each.name for each in facts.living if each.draining]
    but = f" ({', '.join(draining)}: draining)" if draining else ""
    if not facts.living:
        yield Verdict("pending.no_daemon", "waits: no daemon runs", ("taskengine run",))
    elif not facts.polling:
        yield Verdict(
            "pending.unpolled",
            f"waits: no running daemon polls queue {row.queue!r}{but}: add it to [workers] queues of"
            " one",
        )
    elif not facts.able:
        yield Verdict(
            "pending.unknown_job",
            f"waits: no daemon that polls queue {row.queue!r} knows the job {row.job!r}{but}: "
            "deploy it, or add its module to [jobs] modules",
        )


def _key(facts: Facts) -> Iterator[Verdict]:
    row, key = facts.row, facts.key
    if key is None:
        return
    if key.holder is not None:
        since = f", running since {clock(key.holder_since, facts.at)}" if key.holder_since else ""
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
    elif key.holder is None and row.waits_for_key and facts.is_listed:
        then = f"the sweep pushes it within {span(facts.settings.sweep)}"
        if facts.lines is not None:
            then = "a daemon claims it with its next turn"
        yield Verdict(
            "pending.key_free",
            f"waits for its exclusive key {row.exclusive_key!r}, which is free now: {then}",
        )


def _definition(facts: Facts) -> Iterator[Verdict]:
    """What is pending runs all the same."""
    row = facts.row
    if row.definition_error is not None:
        yield Verdict(
            "job.broken",
            f"runs all the same, though its job's schedule is skipped: {brief(row.definition_error)}",
            (f"taskengine jobs show {row.job}",),
        )
    if row.is_enabled is False:
        yield Verdict(
            "job.disabled",
            "runs all the same, though its job is disabled: only new dispatches are refused",
        )
