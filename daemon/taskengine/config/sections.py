"""The sections of config.toml, one a service, each key with its default and its bounds.

Guarantees: frozen; a value out of bounds, or two values that contradict each other within a
section, are refused. What several sections say together is checked in `root`. Seconds are floats.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from taskengine.config.values import DAY, Int, Keep, Name, Names, Seconds, Section, Texts

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_Every = Annotated[Seconds, Field(ge=0.05, le=DAY)]


class Engine(Section):
    """What all daemons of one installation share."""

    queues: Names = Field(
        default=("payroll", "high", "default", "low"), min_length=1, max_length=50
    )
    name: str = Field(default="taskengine", min_length=1, max_length=100)


class Postgres(Section):
    """The truth. Without a DSN libpq's own variables count (PGHOST, PGUSER, …)."""

    dsn: SecretStr | None = None
    schema_name: str = Field(
        default="taskengine", alias="schema", pattern=r"^[a-z_][a-z0-9_]{0,62}$"
    )
    pool_max: Int = Field(default=10, ge=2, le=500)
    command_timeout: Seconds = Field(default=30.0, ge=1.0, le=3600.0)
    statement_cache: bool = True

    @field_validator("dsn")
    @classmethod
    def _is_postgres(cls, dsn: SecretStr | None) -> SecretStr | None:
        if dsn and not dsn.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must begin with postgresql://")
        return dsn


class Redis(Section):
    """The delivery. `breaker`: seconds for which a Redis that was away is not asked again."""

    url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    prefix: str = Field(default="taskengine", pattern=r"^[A-Za-z0-9_.:{}-]{1,64}$")
    enabled: bool = True
    timeout: Seconds = Field(default=2.0, ge=0.05, le=60.0)
    breaker: Seconds = Field(default=1.0, ge=0.0, le=60.0)

    @field_validator("url")
    @classmethod
    def _is_redis(cls, url: SecretStr) -> SecretStr:
        if not url.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must begin with redis://, rediss:// or unix://")
        return url


class Workers(Section):
    """How this process works. After loading, `queues` holds those polled here, first first."""

    queues: Names = ()
    slots: Int = Field(default=200, ge=1, le=5000)
    threads: Int = Field(default=16, ge=1, le=256)
    claim_batch: Int = Field(default=500, ge=1, le=1000)
    poll_interval: Seconds = Field(default=1.0, ge=0.05, le=60.0)
    direct_after: Seconds = Field(default=3.0, ge=0.0, le=3600.0)
    drain_timeout: Seconds = Field(default=60.0, ge=0.0, le=DAY)
    lock_dir: Path | None = None
    control_socket: Path | None = None

    def lock_folder(self) -> Path:
        """Where the lock files lie: `lock_dir`, else systemd's state folder, else a folder of this
        user's among the temporary files (it is made, and its owner checked, by who uses it)."""
        if self.lock_dir is not None:
            return self.lock_dir
        state = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
        if state:
            return Path(state) / "locks"
        return Path(tempfile.gettempdir()) / f"taskengine-{os.getuid()}" / "locks"


class Queue(Section):
    """Settings of one queue: `reserved` slots that no other queue may fill."""

    reserved: Int = Field(default=0, ge=0, le=5000)


class Jobs(Section):
    """The modules whose jobs this daemon knows."""

    modules: Texts = ()

    @field_validator("modules")
    @classmethod
    def _are_modules(cls, modules: tuple[str, ...]) -> tuple[str, ...]:
        for module in modules:
            if not _MODULE.fullmatch(module):
                raise ValueError(f"{module[:80]!r} is no module name; write it as in an import")
        return modules


class Scheduler(Section):
    """Whether this daemon fires schedules."""

    enabled: bool = True


class Heartbeat(Section):
    """How a daemon shows that it lives, and when others believe that it does not."""

    beat: Seconds = Field(default=3.0, ge=0.05, le=60.0)
    lease: Seconds = Field(default=12.0, ge=0.15, le=3600.0)
    stall_limit: Seconds = Field(default=60.0, ge=1.0, le=3600.0)

    @model_validator(mode="after")
    def _lease_outlives_beats(self) -> Heartbeat:
        if self.lease < 3 * self.beat:
            raise ValueError(
                f"lease ({self.lease:g} s) must be at least 3 x beat, {3 * self.beat:g} s here"
            )
        return self


class Recovery(Section):
    """How soon the sweeps look for what was lost."""

    reserve_grace: Seconds = Field(default=10.0, ge=0.1, le=3600.0)
    delivery_sweep: _Every = 15.0
    over_time_sweep: _Every = 300.0
    divergence: _Every = 60.0
    check_after: Seconds = Field(default=15.0, ge=0.1, le=900.0)
    sweep_limit: Int = Field(default=10_000, ge=1, le=1_000_000)


class Retention(Section):
    """How long what is over is kept."""

    succeeded: Keep = 30 * DAY
    failed: Keep = 180 * DAY
    webhook_bodies: Keep = 90 * DAY
    keys: Keep = 400 * DAY
    every: _Every = 3600.0


class Web(Section):
    """The HTTP side: webhooks, health, metrics, dashboard. Port 0: any free one."""

    enabled: bool = True
    host: str = Field(default="127.0.0.1", min_length=1, max_length=255)
    port: Int = Field(default=8080, ge=0, le=65_535)


class Logs(Section):
    """What is logged and how. `auto`: natively where standard error is systemd's journal, for people
    on a terminal, JSON lines elsewhere. `executions`: each one's dispatch, start and success too."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "journal", "console", "json"] = "auto"
    executions: bool = False


class Notices(Section):
    """Where notices of failures queue; none: the second of the engine's queues, else the first."""

    queue: Name | None = None


class Migrate(Section):
    """Whether a daemon brings the schema up to date when it starts."""

    auto: bool = False
