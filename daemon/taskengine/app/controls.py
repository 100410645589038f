"""What the control socket's verbs do to this daemon, and what they answer (JSON-able)."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from taskengine import __version__
from taskengine.app.build import Daemon
from taskengine.app.reload import Reload
from taskengine.lifecycle.inflight import Flight
from taskengine.runtime.supervisor import Supervisor
from taskengine.services.control import Verbs
from taskengine.telemetry.events import emit


def verbs(daemon: Daemon, supervisor: Supervisor, reload: Reload) -> Verbs:
    """By their names."""
    since = daemon.parts.clock.now()
    return {
        "status": lambda: _status(daemon, supervisor, since),
        "reload": reload,
        "drain": lambda: _drain(daemon),
    }


def _drain(daemon: Daemon) -> dict[str, Any]:
    """Take no new work until the process ends; what runs goes on for as long as it needs."""
    crew = daemon.crew
    if not crew.identity.draining:
        emit("worker.quiet", count=len(crew.inflight))
        crew.quiet()
    return {"ok": True, "left": len(crew.inflight), "idle": crew.idle}


def _status(daemon: Daemon, supervisor: Supervisor, since: datetime) -> dict[str, Any]:
    """What this daemon alone knows, without asking a store. Ages and times are seconds."""
    parts, crew = daemon.parts, daemon.crew
    now = parts.clock.monotonic()
    told = {each.name: each.report(now) for each in daemon.services}
    return {
        "ok": True,
        "name": crew.identity.name,
        "pid": os.getpid(),
        "worker_id": crew.identity.worker_id,
        "version": __version__,
        "since": since.isoformat(),
        "state": _state(daemon, supervisor),
        "status": daemon.status_line.words(),
        "slots": crew.slots,
        "busy": crew.inflight.busy,
        "left": len(crew.inflight),
        "idle": crew.idle,
        **daemon.status_line.stores(),
        "direct": crew.direct.on,
        "loops": {name: each for name, each in told.items() if each},
        "running": [_shown(flight, now) for flight in crew.inflight],
    }


def _state(daemon: Daemon, supervisor: Supervisor) -> str:
    if supervisor.draining:
        return "stopping"
    if daemon.crew.identity.draining:
        return "draining"
    return "ready" if supervisor.ready else "starting"


def _shown(flight: Flight, now: float) -> dict[str, Any]:
    claim = flight.claim
    return {
        "id": claim.id,
        "task": claim.job,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "seconds": round(now - flight.started_at, 3),
    }
