"""Which fire times of a window are run, and which are passed over and why.

Guarantees: a fire time that is not late is always run; each late one is either run or accounted
for as missed with a reason. A plan is bounded, however long the outage was: it runs at most
`cap` late fire times and lists at most `cap` missed ones; the others are a count. `fired_until`
never moves back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from taskengine.model.schedule import Schedule

CAP = 1_000
_TICK = timedelta(microseconds=1)


class MisfirePolicy(StrEnum):
    """What happens to fire times that nobody ran when they came."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class MissReason(StrEnum):
    """Why a fire time was passed over, in words."""

    SKIPPED = "late, and the schedule skips late fire times"
    SUPERSEDED = "late, and a later fire time runs instead"
    TOO_LATE = "later than the schedule's grace"


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfireRule:
    """How a schedule treats lateness. `grace` and `on_time` are seconds.

    A fire time younger than `on_time` is not late. A late one may run by `policy`, if it is not
    older than `grace`.
    """

    policy: MisfirePolicy = MisfirePolicy.LATEST
    grace: float = 3600.0
    on_time: float = 60.0
    cap: int = CAP


@dataclass(frozen=True, slots=True)
class Plan:
    """What one turn does: `fire` now (ascending), record `missed`, then move `fired_until`.

    `unlisted` more were missed after the listed ones, for the same reason as the last of these.
    """

    fire: list[datetime]
    missed: list[tuple[datetime, MissReason]]
    unlisted: int
    fired_until: datetime


def plan_fires(schedule: Schedule, fired_until: datetime, now: datetime, rule: MisfireRule) -> Plan:
    """The plan for the window (fired_until, now]; an empty one if `now` is not past its start."""
    if now <= fired_until:
        return Plan([], [], 0, fired_until)
    late_until = max(fired_until, now - timedelta(seconds=rule.on_time))
    if rule.policy is MisfirePolicy.ALL:
        return _run_all(schedule, fired_until, late_until, now, rule)
    timely = list(schedule.fires(late_until, now))
    if rule.policy is MisfirePolicy.SKIP:
        passed = _passed(schedule, fired_until, late_until, MissReason.SKIPPED, rule.cap)
        return replace(passed, fire=timely, fired_until=now)
    if timely:
        passed = _passed(schedule, fired_until, late_until, MissReason.SUPERSEDED, rule.cap)
        return replace(passed, fire=timely, fired_until=now)
    return _run_latest(schedule, fired_until, late_until, now, rule)


def _run_latest(
    schedule: Schedule, after: datetime, until: datetime, now: datetime, rule: MisfireRule
) -> Plan:
    last = schedule.latest(after, until)
    if last is None:
        return Plan([], [], 0, now)
    if now - last > timedelta(seconds=rule.grace):
        passed = _passed(schedule, after, until, MissReason.TOO_LATE, rule.cap)
        return replace(passed, fired_until=now)
    passed = _passed(schedule, after, last - _TICK, MissReason.SUPERSEDED, rule.cap)
    return replace(passed, fire=[last], fired_until=now)


def _run_all(
    schedule: Schedule, after: datetime, until: datetime, now: datetime, rule: MisfireRule
) -> Plan:
    """Oldest first; what is over the cap stays in the window and comes at the next turn."""
    too_late = now - timedelta(seconds=rule.grace) - _TICK
    edge = max(after, min(too_late, until))
    passed = _passed(schedule, after, edge, MissReason.TOO_LATE, rule.cap)
    fire = list(islice(schedule.fires(edge, now), rule.cap + 1))
    more = len(fire) > rule.cap
    fire = fire[: rule.cap]
    return replace(passed, fire=fire, fired_until=fire[-1] if more else now)


def _passed(
    schedule: Schedule, after: datetime, until: datetime, reason: MissReason, cap: int
) -> Plan:
    """A plan that runs nothing of (after, until] and lists the first `cap` as missed."""
    if until <= after:
        return Plan([], [], 0, after)
    listed = list(islice(schedule.fires(after, until), cap))
    unlisted = schedule.count(listed[-1], until) if len(listed) == cap else 0
    return Plan([], [(instant, reason) for instant in listed], unlisted, until)
