"""A reload: validate everything, then swap what may change; a bad file changes nothing.

Guarantee: systemd hears of it only between READY and STOPPING, so that a reload never says either.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taskengine.app.build import Daemon
from taskengine.config import Config
from taskengine.errors import ConfigError
from taskengine.runtime.supervisor import Supervisor
from taskengine.telemetry.events import emit
from taskengine.telemetry.logs import Logs


class Reload:
    """What SIGHUP and the control socket ask for; its answer is JSON-able."""

    def __init__(
        self, daemon: Daemon, supervisor: Supervisor, path: Path | None, logs: Logs
    ) -> None:
        self._daemon = daemon
        self._supervisor = supervisor
        self._begun = self._now = daemon.parts.config
        self._path = path
        self._logs = logs

    def __call__(self) -> dict[str, Any]:
        """`changes` made and keys that need a restart (`restart_needed`); or the `error`."""
        if not self._supervisor.ready:
            return self._reload()
        self._daemon.notifier.reloading()
        try:
            return self._reload()
        finally:
            self._daemon.notifier.ready()

    def _reload(self) -> dict[str, Any]:
        try:
            new = Config.load(self._path)
        except ConfigError as error:
            emit("config.refused", error=error)
            return {"ok": False, "error": str(error)}
        changes, _ = self._now.reloadable_diff(new)
        _, restart = self._begun.reloadable_diff(new)
        self._now = new
        self._logs.set_level(new.logs.level)
        self._daemon.crew.resize(new.workers.slots, new.workers.threads)
        emit("config.reloaded", changes=changes, restart_needed=restart)
        return {"ok": True, "changes": changes, "restart_needed": restart}
