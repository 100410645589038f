"""The process of a daemon: logs, signals, waiting for the stores, the exit status.

Guarantees: a Postgres that is away is waited for; a schema that is behind, a bad configuration and
another database's Redis end with 78 (a restart would not help).
"""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import sys
from pathlib import Path

from taskengine import __version__
from taskengine.app.build import Daemon, Guest, build
from taskengine.app.controls import verbs
from taskengine.app.leaving import run_to_end
from taskengine.app.reload import Reload
from taskengine.broker.cluster import check_cluster
from taskengine.config import Config
from taskengine.errors import Away, TaskEngineError
from taskengine.jobs.notify_failure import NotifyFailure
from taskengine.lifecycle.definitions import sync
from taskengine.lifecycle.parts import Parts, close_parts, open_parts
from taskengine.lifecycle.rebuild import remember
from taskengine.model.registry import Registry
from taskengine.runtime.clock import SystemClock
from taskengine.runtime.supervisor import Supervisor, exit_status
from taskengine.runtime.systemd import Notifier
from taskengine.store import migrate
from taskengine.telemetry.events import emit, subscribe
from taskengine.telemetry.logs import LogEvents, Logs, set_up
from taskengine.telemetry.metrics import Metrics

_TELL_SECONDS = 60.0  # between two lines that say what is waited for


def serve(config: Config, config_path: Path | None, guest: Guest | None = None) -> int:
    """Run a daemon until it is asked to stop; the exit status."""
    logs = set_up(config.logs.level, config.logs.format, sys.stderr)
    told = LogEvents(executions=config.logs.executions)
    subscribe(told, told.wants)
    subscribe(logs.origin.learn, logs.origin.wants)
    _calm_the_collector()
    try:
        return run_to_end(lambda: _serve(config, config_path, logs, guest))
    except TaskEngineError as error:
        emit("process.failed", error=error)
        return exit_status(error)


def _calm_the_collector() -> None:
    """Cycles are rare here and flights many: the default thresholds cost a sixth of the CPU."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


async def _serve(config: Config, config_path: Path | None, logs: Logs, guest: Guest | None) -> int:
    """Open, run, close."""
    stop = asyncio.Event()
    notifier = Notifier.from_env()
    registry = Registry.load(config.jobs.modules)
    parts = await open_parts(
        config, registry, SystemClock(), random.SystemRandom(), config.engine.name
    )
    registry.add(NotifyFailure(parts))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)  # until there is something to be drained
    loop.add_signal_handler(signal.SIGHUP, _nothing_to_reload)
    await _until_migrated(parts, notifier, stop)
    if stop.is_set():
        await close_parts(parts)
        emit("process.stopped")
        return 0
    daemon = build(parts, measure(parts, logs), notifier, guest)
    supervisor = daemon.supervisor()
    reload = Reload(daemon, supervisor, config_path, logs)
    if daemon.control is not None:
        daemon.control.verbs = verbs(daemon, supervisor, reload)
    _heed_signals(supervisor, daemon, stop, reload)
    status = await _supervise(supervisor, stop)
    await daemon.databases.close()
    await close_parts(parts)
    return status


async def _supervise(supervisor: Supervisor, stop: asyncio.Event) -> int:
    try:
        await supervisor.run(stop)
    except Exception as error:
        emit("process.failed", error=error)
        return exit_status(error)
    emit("process.stopped")
    return 0


async def _until_migrated(parts: Parts, notifier: Notifier, stop: asyncio.Event) -> None:
    """Wait for a Postgres that is away; refuse one whose schema is behind (or bring it up)."""
    told = -_TELL_SECONDS
    while not stop.is_set():
        try:
            if parts.config.migrate.auto:
                await migrate.up(parts.config.postgres)
            await migrate.check(parts.config.postgres)
            await sync(parts)
            await _know_redis(parts)
        except Away as error:
            if parts.clock.monotonic() - told >= _TELL_SECONDS:
                told = parts.clock.monotonic()
                emit("process.waiting", error=error)
            notifier.status("waiting for Postgres")
            notifier.extend_timeout(30)
            await parts.clock.sleep(1.0)
        else:
            return


async def _know_redis(parts: Parts) -> None:
    """Redis away is no reason to wait: the divergence loop does it when it is back."""
    if not parts.config.redis.enabled:
        return
    try:
        await check_cluster(parts.client, parts.keys)
        await remember(parts)
    except Away as error:
        emit("loop.away", loop="divergence", error=error, seconds=0.0)


def measure(parts: Parts, logs: Logs | None = None) -> Metrics:
    """The metrics of this process, counting from now on."""
    clock = parts.clock
    metrics = Metrics(
        version=__version__,
        queues=parts.config.engine.queues,
        sources=list(parts.config.webhooks.sources),
        now=lambda: clock.now().timestamp(),
        tasks=[(handle.settings.queue, handle.name) for handle in parts.registry],
        dropped=lambda: logs.dropped if logs is not None else 0,
    )
    for handle in parts.registry:
        if handle.settings.schedule:
            metrics.series.know_schedule(handle.name)
    metrics.subscribe()
    return metrics


def _nothing_to_reload() -> None:
    """A SIGHUP before the services are built: it must not end the process."""


def _heed_signals(
    supervisor: Supervisor, daemon: Daemon, stop: asyncio.Event, reload: Reload
) -> None:
    """SIGTERM, SIGINT: stop; once more: hurry. SIGHUP: reload."""
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if stop.is_set():
            supervisor.hurry()
        daemon.crew.quiet()
        stop.set()

    loop.add_signal_handler(signal.SIGTERM, asked)
    loop.add_signal_handler(signal.SIGINT, asked)
    loop.add_signal_handler(signal.SIGHUP, reload)
