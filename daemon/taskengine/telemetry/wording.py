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
    "process.ready": (INFO, "ready: {services} services run"),
    "process.draining": (INFO, "stopping: what runs may finish"),
    "process.stopped": (INFO, "stopped"),
    "process.overslept": (WARNING, "the whole process stood still for {seconds:.1f} s"),
    "tier.draining": (DEBUG, "draining {services} ({reason})"),
    "service.failed": (ERROR, "service {service} failed: {error}"),
    "service.stalled": (ERROR, "no progress for {seconds:g} s: {services}"),
    "service.stuck": (ERROR, "service {service} does not end although cancelled"),
    "loop.turn": (DEBUG, "{loop}: a turn of {seconds:.3f} s"),
    "loop.away": (WARNING, "{loop}: a store is away, trying again: {error}"),
    "loop.failed": (ERROR, "{loop}: failed ({failures} in a row): {error}"),
    # the stores
    "broker.away": (WARNING, "Redis is away, dispatches wait for the sweep: {error}"),
    "broker.back": (INFO, "Redis is back"),
    "broker.wrong_type": (WARNING, "key {key} held a {found}, which is none of ours: dropped"),
    "broker.evicts": (WARNING, "Redis may drop keys: its policy is {policy}; set noeviction"),
    "broker.direct": (WARNING, "Redis is away: claiming straight from Postgres"),
    "broker.off": (INFO, "Redis is switched off: claiming straight from Postgres"),
    "broker.direct_left": (INFO, "claiming by way of Redis again"),
    "delivery.rebuilt": (INFO, "queues rebuilt from Postgres: {count} executions"),
    # executions, many at once (rows for the metrics, their number for the log)
    "executions.dispatched": (DEBUG, "{count} dispatched"),
    "executions.claimed": (DEBUG, "{count} claimed"),
    "executions.settled": (DEBUG, "{count} settled"),
    # executions
    "execution.undelivered": (DEBUG, "{count} committed but not pushed: the sweep delivers"),
    "execution.left_reserved": (DEBUG, "{count} stay reserved until the grace is over"),
    "execution.unacknowledged": (DEBUG, "{count} claimed, their messages stay until the grace"),
    "execution.unwoken": (
        WARNING,
        "next of {count} exclusive keys unknown, the sweep sees: {error}",
    ),
    "execution.woken_late": (INFO, "{count} waited for an exclusive key that nobody held: pushed"),
    "executions.key_taken": (DEBUG, "{count} wait for their exclusive keys"),
    "executions.lane_full": (DEBUG, "{count} orphaned ones wait for the quarantine lane"),
    "execution.unclaimable": (ERROR, "cannot be claimed, so it is failed: {error}"),
    "execution.dispatched": (DEBUG, "{task} dispatched to {queue}"),
    "execution.started": (DEBUG, "{task} started, {waited:.3f} s after its time"),
    "execution.succeeded": (DEBUG, "{task} succeeded"),
    "execution.retried": (WARNING, "{task} failed, will be tried again: {error}"),
    "execution.snoozed": (DEBUG, "{task} snoozed"),
    "execution.released": (INFO, "{task} released, its body had not begun: {reason}"),
    "execution.interrupted": (WARNING, "{task} was stopped by the shutdown"),
    "execution.interrupted_often": (ERROR, "{task} was stopped {interruptions} times by shutdowns"),
    "execution.failed": (ERROR, "{task} failed for good: {error}"),
    "execution.discarded": (WARNING, "{task} says not to try again: {error}"),
    "execution.orphaned": (WARNING, "{task} orphaned: {reason}"),
    "execution.quarantined": (ERROR, "{task} quarantined: {reason}"),
    "execution.verified": (INFO, "{task} is done: its verify says so"),
    "execution.unanswered": (WARNING, "{task}: verify gave no answer, it is asked again: {error}"),
    "execution.cancelled": (INFO, "{task} cancelled"),
    "execution.redriven": (INFO, "{task} redriven"),
    "execution.zombie": (ERROR, "{task} goes on after its deadline: its result will not count"),
    "execution.claim_lost": (WARNING, "{task}: claim lost, its result changes nothing"),
    "execution.log_dropped": (WARNING, "{count} lines of execution logs could not be kept"),
    # workers, jobs, queues
    "worker.declared_dead": (ERROR, "declared dead by another daemon: starting anew"),
    "job.registered": (INFO, "{count} jobs known"),
    "job.skipped": (ERROR, "job {task} is skipped: {reason}"),
    "job.unknown": (ERROR, "{count} executions of {task} are due, and no daemon knows the job"),
    "queue.unlisted": (ERROR, "{count} executions wait in {queue}, which is not in engine.queues"),
    "queue.unpolled": (ERROR, "{count} executions wait in {queue}, which no worker polls"),
    "queue.foreign_dropped": (WARNING, "{count} messages that are no ids dropped from {queue}"),
    "queue.rowless_dropped": (
        WARNING,
        "{count} messages dropped from {queue}: their executions do not exist",
    ),
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
    "notices.failed": (WARNING, "{count} notices of {task} not sent, they stay due: {error}"),
    "notices.sent": (DEBUG, "{count} notices of {task} sent"),
    "notice.failure": (ERROR, "notice: {task} failed for good: {error}"),
    # the process and its configuration
    "control.unavailable": (
        ERROR,
        "no control socket at {path}, `taskengine ctl` is deaf: {error}",
    ),
    "worker.quiet": (INFO, "takes no new work until it is restarted: {count} left"),
    "config.refused": (ERROR, "the new configuration is refused, the old one stays: {error}"),
    "config.reloaded": (
        INFO,
        "configuration reloaded: {changes}; needs a restart: {restart_needed}",
    ),
    "process.failed": (ERROR, "the process ends: {error}"),
    "process.exit_refused": (ERROR, "a job's own task called sys.exit(): the daemon goes on"),
    "process.waiting": (WARNING, "waiting for Postgres: {error}"),
    # what others notice
    "delivery.repaired": (WARNING, "{count} due executions were in no queue: pushed again"),
    "delivery.diverged": (WARNING, "queue {queue} lacked {count} messages: rebuilding it"),
    "execution.cancel_asked": (INFO, "cancel of execution {execution_id} by {by}: {answer}"),
    "execution.thread_lost": (ERROR, "{task}: its thread goes on and keeps its slot"),
    "execution.left_running": (ERROR, "{task} cannot be stopped: left to the recovery"),
    "execution.unsettled": (ERROR, "Postgres refuses the end of {execution_id}: {error}"),
    "execution.zombie_ended": (WARNING, "{task} has ended at last, long after its deadline"),
    "heartbeat.left_unsaid": (WARNING, "no goodbye to Postgres, recovery decides: {error}"),
    "heartbeat.missed": (WARNING, "no beat: {error}"),
    "heartbeat.postponed": (WARNING, "put off until the next beat: {error}"),
    "heartbeat.stalled": (ERROR, "the main loop does not answer: no more beats"),
    "job.mended": (INFO, "job {task} is no longer skipped"),
    "queue.promoted": (DEBUG, "{count} due: moved to {queue}"),
    "queue.requeued": (INFO, "{count} reserved and never claimed: back to {queue}"),
    "schedule.ahead": (ERROR, "{task}: fired until {fired_until}, ahead of the clock: not fired"),
    "schedule.failed": (ERROR, "{task}: not fired: {error}"),
    "schedule.hook_failed": (ERROR, "{task}: its key hook failed: {error}"),
    "schedule.nobody_knows": (ERROR, "{task} is due and no daemon knows it"),
    "webhook.blocked": (ERROR, "events of {source} wait: job {task} takes none ({reason})"),
    "webhook.conflict": (WARNING, "event {event_id} of {source} came again with another body"),
    "webhook.old_key": (WARNING, "an event of {source} was signed by its key {key_index} alone"),
    "webhook.processed": (DEBUG, "event of {source} processed"),
    "webhook.received": (DEBUG, "request for {source}: {result}"),
    "webhook.rejected": (ERROR, "event of {source} cannot be stored: {error}"),
    "webhook.unavailable": (WARNING, "request for {source} answered 503: {error}"),
    "webhook.undispatched": (ERROR, "event of {source} stored; {task} takes none now: {error}"),
    "worker.buried": (WARNING, "worker {worker_id} is dead: {count} executions recovered"),
    "worker.joined": (INFO, "worker {worker_id} joined"),
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
