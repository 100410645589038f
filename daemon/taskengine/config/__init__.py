"""The configuration. Start at `Config.load`; sections are handed over whole."""

from taskengine.config.root import RELOADABLE, Config, find_config
from taskengine.config.sections import (
    Engine,
    Heartbeat,
    Jobs,
    Logs,
    Migrate,
    Notices,
    Postgres,
    Queue,
    Recovery,
    Redis,
    Retention,
    Scheduler,
    Web,
    Workers,
)
from taskengine.config.webhooks import Source, Webhooks

__all__ = [
    "RELOADABLE",
    "Config",
    "Engine",
    "Heartbeat",
    "Jobs",
    "Logs",
    "Migrate",
    "Notices",
    "Postgres",
    "Queue",
    "Recovery",
    "Redis",
    "Retention",
    "Scheduler",
    "Source",
    "Web",
    "Webhooks",
    "Workers",
    "find_config",
]
