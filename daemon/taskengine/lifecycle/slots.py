"""What a definition has to fire: one slot for each fire time, and for each store it is for.

Guarantees: every fire time of (fired_until, now] is fired, passed over with a reason, or left in
the window for the next turn, for each store by itself (`time_zone = "store"`: by its own clock). A
turn is bounded, however long the outage and however many the stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from taskengine.errors import ScheduleError
from taskengine.model.definition import Definition, JobSettings
from taskengine.model.misfire import CAP, MisfirePolicy, MisfireRule, Plan, plan_fires
from taskengine.model.schedule import Schedule
from taskengine.model.surroundings import StoreInfo

_ROWS = 5_000  # slots a turn, over all stores
_ON_TIME = 60.0  # seconds that a fire time may wait and still not be late
_ON_TIME_SECONDS = 10.0  # the same for a schedule with seconds

Targets = Sequence[StoreInfo | None]


class Slot(NamedTuple):
    """One execution to be: a fire time (UTC), for a store or for none."""

    fire_time: datetime
    store: StoreInfo | None

    @property
    def type_num(self) -> str | None:
        return self.store.type_num if self.store else None


class Passed(NamedTuple):
    """A slot that does not run: `why` in a word (a label), `reason` as it is recorded."""

    slot: Slot
    why: str
    reason: str


@dataclass(frozen=True, slots=True)
class Slots:
    """One turn of one definition. `unlisted` more than the listed ones were passed over."""

    fire: list[Slot]
    passed: list[Passed]
    unlisted: int
    fired_until: datetime

    @property
    def first(self) -> datetime | None:
        """The oldest fire time to be decided; None: nothing is due."""
        times = [slot.fire_time for slot in self.fire]
        times += [each.slot.fire_time for each in self.passed]
        return min(times, default=None)


def plan_slots(definition: Definition, stores: Sequence[StoreInfo], now: datetime) -> Slots:
    """What is due at `now`; `stores` are the active ones. `ScheduleError` for a broken schedule."""
    settings = definition.settings
    zones = clocks(settings, stores)
    rule = _rule(settings, max(1, sum(map(len, zones.values()))))
    plans = [
        _planned(settings, zone, targets, definition.fired_until, now, rule)
        for zone, targets in zones.items()
    ]
    until = min(each.fired_until for each in plans)
    return Slots(
        [slot for each in plans for slot in each.fire if slot.fire_time <= until],
        [one for each in plans for one in each.passed if one.slot.fire_time <= until],
        sum(each.unlisted for each in plans),
        until,
    )


def clocks(settings: JobSettings, stores: Sequence[StoreInfo]) -> Mapping[str, Targets]:
    """Who is served by which clock. Without any store the window still moves on."""
    if settings.scope != "per_store":
        return {settings.time_zone: [None]}
    if settings.time_zone != "store":
        return {settings.time_zone: stores}
    zones: dict[str, list[StoreInfo | None]] = {} if stores else {"UTC": []}
    for store in stores:
        zones.setdefault(store.time_zone, []).append(store)
    return zones


def _rule(settings: JobSettings, targets: int) -> MisfireRule:
    return MisfireRule(
        policy=MisfirePolicy(settings.missed),
        grace=settings.missed_grace,
        on_time=_ON_TIME_SECONDS if settings.schedule_seconds else _ON_TIME,
        cap=max(1, min(CAP, _ROWS // targets)),
    )


def _planned(
    settings: JobSettings,
    zone: str,
    targets: Targets,
    after: datetime,
    now: datetime,
    rule: MisfireRule,
) -> Slots:
    """The plan of one zone, for each of its targets."""
    expression = settings.schedule or ""
    try:
        schedule = Schedule.parse(expression, zone, settings.schedule_seconds)
    except ScheduleError as error:
        if settings.time_zone != "store":
            raise
        # One store's bad zone must neither stop the others nor pass in silence: recorded by UTC.
        schedule = Schedule.parse(expression, "UTC", settings.schedule_seconds)
        plan = plan_fires(schedule, after, now, rule)
        return _without_zone(_for_targets(plan, targets), str(error))
    return _for_targets(plan_fires(schedule, after, now, rule), targets)


def _for_targets(plan: Plan, targets: Targets) -> Slots:
    missed = [(instant, why.name.lower(), why.value) for instant, why in plan.missed]
    if plan.unlisted:
        instant, why, reason = missed[-1]
        missed[-1] = instant, why, f"{reason} (and {plan.unlisted} more after it, not listed)"
    return Slots(
        [Slot(instant, each) for instant in plan.fire for each in targets],
        [Passed(Slot(instant, each), *why) for instant, *why in missed for each in targets],
        plan.unlisted * len(targets),
        plan.fired_until,
    )


def _without_zone(slots: Slots, error: str) -> Slots:
    """Nothing of these can run."""
    reason = f"the store's time zone cannot be used: {error}"
    all_slots = [*(each.slot for each in slots.passed), *slots.fire]
    return replace(slots, fire=[], passed=[Passed(slot, "bad_zone", reason) for slot in all_slots])
