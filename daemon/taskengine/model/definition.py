"""The settings of a job: what a class declares, what its row in the database says at run time.

Bounds are those of the table "The settings of a job" in the specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TypedDict

from taskengine.errors import InvalidSetting
from taskengine.model.keys import check_job_name
from taskengine.model.payload import JsonValue
from taskengine.model.schedule import Schedule

_BOUNDS: Mapping[str, tuple[int, int, str]] = {
    "timeout": (1, 7 * 86400, "s"),
    "max_attempts": (0, 1000, ""),
    "retry_backoff": (0, 3600, "s"),
    "max_orphanings": (1, 100, ""),
    "max_interruptions": (1, 1000, ""),
    "max_payload_bytes": (1, 16 * 1024 * 1024, "bytes"),
    "max_result_bytes": (1, 16 * 1024 * 1024, "bytes"),
    "missed_grace": (0, 365 * 86400, "s"),
}

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "scope": ("global", "per_store"),
    "missed": ("skip", "latest", "all"),
    "when_held": ("record", "redrive"),
    "on_interrupt": ("retry", "fail", "verify"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """How a job runs. Seconds are whole; `schedule` is cron, in `time_zone` (`store`: each one's)."""

    display_name: str
    queue: str = "default"
    scope: str = "global"
    schedule: str | None = None
    schedule_seconds: bool = False
    time_zone: str = "UTC"
    missed: str = "latest"
    missed_grace: int = 86400
    when_held: str = "record"
    timeout: int = 300
    max_attempts: int = 3
    retry_backoff: int = 60
    max_orphanings: int = 3
    max_interruptions: int = 20
    on_interrupt: str = "retry"
    max_payload_bytes: int = 256 * 1024
    max_result_bytes: int = 64 * 1024
    config: Mapping[str, JsonValue] = field(default_factory=dict)
    is_enabled: bool = True
    notify_on_failure: bool = True
    notify_sms: bool = False

    def __post_init__(self) -> None:
        for name, (low, high, unit) in _BOUNDS.items():
            check_number(name, getattr(self, name), low, high, unit)
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if self.schedule is not None:
            check_schedule(self.schedule, self.time_zone, self.scope, seconds=self.schedule_seconds)


class DeclaredSettings(TypedDict, total=False):
    """What `@job(...)` takes: the fields of `JobSettings`, each with its default."""

    display_name: str
    queue: str
    scope: str
    schedule: str | None
    schedule_seconds: bool
    time_zone: str
    missed: str
    missed_grace: int
    when_held: str
    timeout: int
    max_attempts: int
    retry_backoff: int
    max_orphanings: int
    max_interruptions: int
    on_interrupt: str
    max_payload_bytes: int
    max_result_bytes: int
    config: Mapping[str, JsonValue]
    is_enabled: bool
    notify_on_failure: bool
    notify_sms: bool


@dataclass(frozen=True, slots=True)
class Definition:
    """A job's row: its settings, its name, and what the scheduler remembers of it."""

    name: str
    settings: JobSettings
    schedule_version: int
    fired_until: datetime
    error: str | None


SETTINGS = tuple(each.name for each in fields(JobSettings))


def check_setting(name: str, value: object) -> None:
    """One setting within its bounds, or `InvalidSetting` that says them."""
    if name in _BOUNDS:
        check_number(name, value, *_BOUNDS[name])
    elif name in _CHOICES:
        check_choice(name, value, _CHOICES[name])


def check_number(name: str, value: object, low: int, high: int, unit: str) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not low <= value <= high:  # type: ignore[operator]
        raise InvalidSetting(
            f"{name} = {value!r}: a whole number from {low} to {high} {unit}".rstrip()
        )


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidSetting(f"{name} = {value!r}: one of {', '.join(choices)}")


def check_schedule(expression: str, zone: str, scope: str, *, seconds: bool) -> None:
    """`ScheduleError` for what cannot be evaluated, now rather than at the tick."""
    if zone == "store" and scope != "per_store":
        raise InvalidSetting("time_zone = 'store' needs scope = 'per_store'")
    Schedule.parse(expression, "UTC" if zone == "store" else zone, seconds=seconds)


def settings_from(name: str, declared: Mapping[str, object]) -> JobSettings:
    """The settings that a class or a decorator declares, with the job's name checked."""
    check_job_name(name)
    shown = str(declared.get("display_name") or name.replace("-", " ").capitalize())
    return JobSettings(**{**declared, "display_name": shown})  # type: ignore[arg-type]
