"""How each event reads in the log: its level and its words. The one list of what can happen.

Guarantees: an event that is not listed is worded by its own name at debug level, so nothing breaks
where this list is behind (a test finds it); a field that is missing reads "?". Batches come with
`count`, or with `rows`, which only their number is logged of.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR

WORDING: dict[str, tuple[int, str]] = {
    # the process
    "process.starting": (INFO, "TaskEngine {version} starts"),
    "process.ready": (INFO, "ready: {services} services run"),
    "process.draining": (INFO, "stopping: what runs may finish"),
    "process.stopped": (INFO, "stopped"),
    "process.reloaded": (INFO, "configuration reloaded: {changes}; needs a restart: {restart}"),
    "process.reload_refused": (ERROR, "configuration not reloaded, the old one stays: {error}"),
    "process.overslept": (WARNING, "the whole process stood still for {seconds:.1f} s"),
    "tier.draining": (DEBUG, "draining {services} ({reason})"),
    "service.failed": (ERROR, "service {service} failed: {error}"),
    "service.stalled": (ERROR, "no progress for {seconds:g} s: {services}"),
    "service.stuck": (ERROR, "service {service} does not end although cancelled"),
    "loop.turn": (DEBUG, "{loop}: a turn of {seconds:.3f} s"),
    "loop.away": (WARNING, "{loop}: a store is away, trying again: {error}"),
    "loop.failed": (ERROR, "{loop}: failed ({failures} in a row): {error}"),
    # the stores
    "store.away": (WARNING, "Postgres is away: {error}"),
    "store.back": (INFO, "Postgres is back"),
    "broker.away": (WARNING, "Redis is away, dispatches wait for the sweep: {error}"),
    "broker.back": (INFO, "Redis is back"),
    "broker.evicts": (WARNING, "Redis may drop keys: its policy is {policy}; set noeviction"),
    "broker.direct": (WARNING, "Redis is away: claiming straight from Postgres"),
    "broker.direct_left": (INFO, "claiming by way of Redis again"),
    "epoch.bad": (WARNING, "Redis has lost or changed its memory: {reason}"),
    "delivery.rebuilding": (WARNING, "rebuilding the queues in Redis from Postgres"),
    "delivery.rebuilt": (INFO, "queues rebuilt from Postgres: {count} executions"),
    "delivery.rebuild_abandoned": (WARNING, "rebuild given up, it starts over: {reason}"),
    "migration.applied": (INFO, "migration {migration} applied in {seconds:.1f} s"),
    # executions, many at once (rows for the metrics, their number for the log)
    "executions.claimed": (DEBUG, "{count} claimed"),
    "executions.settled": (DEBUG, "{count} settled"),
    # executions
    "execution.dispatched": (DEBUG, "{task} dispatched"),
    "execution.undelivered": (DEBUG, "{count} committed but not pushed: the sweep delivers"),
    "execution.delivered": (DEBUG, "{count} pushed"),
    "execution.promoted": (DEBUG, "{count} due: moved to {queue}"),
    "execution.requeued": (INFO, "{count} reserved and never claimed: back to the queue"),
    "execution.recovered": (WARNING, "{count} due executions were in no queue: pushed again"),
    "execution.left_reserved": (DEBUG, "{count} stay reserved until the grace is over"),
    "execution.unacknowledged": (DEBUG, "{count} claimed, their messages stay until the grace"),
    "execution.unclaimable": (ERROR, "cannot be claimed, so it is failed: {error}"),
    "execution.claimed": (DEBUG, "{count} claimed"),
    "execution.started": (DEBUG, "{task} begins"),
    "execution.succeeded": (DEBUG, "{task} succeeded"),
    "execution.retried": (INFO, "{task} failed, will be tried again: {reason}"),
    "execution.snoozed": (DEBUG, "{task} snoozed"),
    "execution.released": (INFO, "{task} released, its body had not begun: {reason}"),
    "execution.interrupted": (WARNING, "{task} was stopped by the shutdown"),
    "execution.interrupted_often": (ERROR, "{task} was stopped {interruptions} times by shutdowns"),
    "execution.failed": (ERROR, "{task} failed for good: {reason}"),
    "execution.discarded": (WARNING, "{task} says not to try again: {reason}"),
    "execution.orphaned": (WARNING, "{task} orphaned: {reason}"),
    "execution.quarantined": (ERROR, "{task} quarantined: {reason}"),
    "execution.cancelled": (INFO, "{task} cancelled"),
    "execution.redriven": (INFO, "{task} redriven"),
    "execution.timed_out": (WARNING, "{task} passed its deadline"),
    "execution.zombie": (ERROR, "{task} goes on after its deadline: its result will not count"),
    "execution.claim_lost": (WARNING, "{task}: claim lost, its result changes nothing"),
    "execution.log_dropped": (WARNING, "{count} lines of execution logs could not be kept"),
    "execution.bad_result": (WARNING, "{task}: the result cannot be stored: {error}"),
    # workers, jobs, queues
    "worker.registered": (INFO, "worker {worker} registered"),
    "worker.dead": (WARNING, "worker {worker} is dead ({reason})"),
    "worker.declared_dead": (ERROR, "declared dead by another daemon: starting anew"),
    "worker.draining": (INFO, "{running} still running"),
    "heartbeat.failed": (WARNING, "no beat: {error}"),
    "lease.taken": (DEBUG, "lease {lease} taken"),
    "lease.lost": (INFO, "lease {lease} lost"),
    "job.registered": (INFO, "{count} jobs known"),
    "job.skipped": (ERROR, "job {task} is skipped: {reason}"),
    "queue.paused": (INFO, "queue {queue} paused: {reason}"),
    "queue.resumed": (INFO, "queue {queue} resumed"),
    "queue.unlisted": (ERROR, "{count} executions wait in {queue}, which is not in engine.queues"),
    "queue.unpolled": (ERROR, "{count} executions wait in {queue}, which no worker polls"),
    "queue.foreign_dropped": (WARNING, "{count} messages that are no ids dropped from {queue}"),
    "queue.rebuilt": (WARNING, "queue {queue} lacked messages: {count} pushed again"),
    # schedules, webhooks, notices, retention
    "schedule.fired": (INFO, "{task} fired {count}"),
    "schedule.missed": (WARNING, "{task}: {count} fire times passed over ({reason})"),
    "schedule.held": (ERROR, "{task} not run: its key is held by {held_by}"),
    "schedule.broken": (ERROR, "{task}: the schedule cannot be evaluated: {error}"),
    "webhook.accepted": (INFO, "event of {source} accepted"),
    "webhook.duplicate": (DEBUG, "event of {source} was here already"),
    "webhook.ignored": (INFO, "event of {source} ignored: its type is not known"),
    "webhook.invalid": (ERROR, "event of {source} stored as invalid: {error}"),
    "webhook.refused": (WARNING, "request for {source} refused ({reason})"),
    "webhook.recovered": (WARNING, "{count} stranded events dispatched again"),
    "webhook.abandoned": (ERROR, "event {event_id} not processed after {recoveries} recoveries"),
    "notice.failure": (ERROR, "{task} failed {count} times: {error}"),
    "retention.removed": (INFO, "{count} old rows removed"),
}


def level_of(event: str) -> int:
    """The event's level, as numbers of `logging`."""
    return WORDING.get(event, (DEBUG, ""))[0]


def words_for(event: str, fields: Mapping[str, Any]) -> str:
    """The event in words; never raises."""
    template = WORDING.get(event, (DEBUG, event))[1]
    try:
        return template.format_map(_Present({"count": 1} | dict(fields)))
    except Exception:  # a field that cannot be written: it still stands beside the words
        return template


class _Missing:
    def __format__(self, spec: str) -> str:
        return "?"


class _Present(dict[str, Any]):
    def __missing__(self, key: str) -> _Missing:
        return _Missing()
