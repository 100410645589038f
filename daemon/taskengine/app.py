"""The composition root: builds the daemon from its configuration and runs it.

The order of the tiers is the order of the start; the drain goes the other way, so that health
answers and leases hold to the very end, and work ends before what feeds and heals it.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

import asyncio
import json
import signal
import sys

import uvloop

from taskengine import __version__
from taskengine.config import Config
from taskengine.errors import Away, ConfigError, TaskEngineError
from taskengine.jobs.notify_failure import NotifyFailure
from taskengine.lifecycle.backstage import Engine
from taskengine.lifecycle.beats import Identity, Watch
from taskengine.lifecycle.definitions import sync
from taskengine.lifecycle.dispatch import Dispatcher
from taskengine.lifecycle.membership import Membership
from taskengine.lifecycle.parts import Parts, close_parts, open_parts
from taskengine.lifecycle.presence import host
from taskengine.lifecycle.rebuild import remember
from taskengine.lifecycle.store_databases import StoreDatabases
from taskengine.model.registry import Registry
from taskengine.runtime.clock import Clock, SystemClock
from taskengine.runtime.service import Periodic, Service
from taskengine.runtime.supervisor import Limits, Supervisor, Tier, exit_status
from taskengine.runtime.systemd import Notifier, watchdog_interval
from taskengine.services.deliveries import Deliveries
from taskengine.services.divergence import Divergence
from taskengine.services.gauges import GaugeRefresher
from taskengine.services.heartbeat import Heartbeat
from taskengine.services.orphans import DeadWorkers, OverTime, Reservations
from taskengine.services.promoter import Promoter
from taskengine.services.retention import Retention
from taskengine.services.waker import Waker
from taskengine.services.worker import Crew, Worker
from taskengine.store import migrate
from taskengine.telemetry.events import emit, subscribe
from taskengine.telemetry.logs import LogEvents, Logs, set_up
from taskengine.telemetry.metrics import Metrics

_DRAIN_MARGIN = 15.0  # seconds beyond the drain time-out: to ask, to cancel, to settle


@dataclass(frozen=True)
class Daemon:
    """A built daemon: its supervisor and what the process around it needs."""

    supervisor: Supervisor
    crew: Crew
    databases: StoreDatabases
    metrics: Metrics


def build(parts: Parts, metrics: Metrics, notifier: Notifier) -> Daemon:
    """Put the services together. Needs a running event loop."""
    config = parts.config
    identity = Identity(name=f"{host()}/{os.getpid()}")
    token = parts.draw_token()
    databases = StoreDatabases(parts)
    crew = Crew(
        parts, identity, lambda inflight: Engine(parts, inflight, databases, identity.name)
    )
    watch = Watch(config.heartbeat.lease, config.heartbeat.beat)
    services: list[Service] = []
    heartbeat = Heartbeat(
        parts, crew, Membership(parts, identity, token), watch, lambda: loops(services, parts.clock)
    )
    tiers = (
        Tier("answers and leases hold to the very end", (heartbeat,)),
        Tier("heals what the others leave behind", _sweeps(parts, crew, watch, token, metrics)),
        Tier("feeds the workers", _feeders(parts, identity)),
        Tier("works", (Waker(parts, crew.work.set), Worker(crew))),
    )
    services += [service for tier in tiers for service in tier.services]
    return Daemon(Supervisor(tiers, parts.clock, _limits(config), notifier), crew, databases, metrics)


def _sweeps(
    parts: Parts, crew: Crew, watch: Watch, token: int, metrics: Metrics
) -> tuple[Service, ...]:
    identity = crew.identity
    return (
        DeadWorkers(parts, identity, watch),
        Reservations(parts),
        OverTime(parts, identity, token),
        Deliveries(parts, identity, token),
        Divergence(parts, identity, token),
        Retention(parts, identity, token),
        GaugeRefresher(parts, crew, metrics.gauges),
    )


def _feeders(parts: Parts, identity: Identity) -> tuple[Service, ...]:
    return (Promoter(parts, identity),)


def _limits(config: Config) -> Limits:
    watchdog = watchdog_interval()
    return Limits(
        stall=config.heartbeat.stall_limit,
        drain=config.workers.drain_timeout + _DRAIN_MARGIN,
        look=min(5.0, watchdog) if watchdog else 5.0,
    )


def loops(services: list[Service], clock: Clock) -> str:
    """Each loop's last turn, as JSON: its age and length in seconds, what it found."""
    now = clock.monotonic()
    return json.dumps(
        {
            service.name: {
                "age": round(now - service.last_turn, 3) if service.last_turn else None,
                "seconds": round(service.last_length, 4),
                "found": dict(service.last_findings),
            }
            for service in services
            if isinstance(service, Periodic)
        },
        default=str,
    )


# ---- the process ---------------------------------------------------------------------------------


def serve(config: Config, config_path: Path | None) -> int:
    """Run a daemon until it is asked to stop; the exit status."""
    logs = set_up(config.logs.level, config.logs.format, sys.stderr)
    told = LogEvents()
    subscribe(told, told.wants)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(config, config_path, logs))
    except TaskEngineError as error:
        emit("process.failed", error=error)
        return exit_status(error)


async def _serve(config: Config, config_path: Path | None, logs: Logs) -> int:
    """Open, run, close. A thread that cannot be stopped does not keep the process alive."""
    stop = asyncio.Event()
    notifier = Notifier.from_env()
    registry = Registry.load(config.jobs.modules)
    parts = await open_parts(
        config, registry, SystemClock(), random.SystemRandom(), config.engine.name
    )
    registry.add(NotifyFailure(parts))
    await _until_migrated(parts, notifier, stop)
    metrics = _metrics(parts)
    daemon = build(parts, metrics, notifier)
    reload = _Reload(daemon, config, config_path, logs)
    _heed_signals(daemon.supervisor, stop, reload)
    status = await _supervise(daemon, stop)
    await daemon.databases.close()
    await close_parts(parts)
    if daemon.crew.threads.lost:
        sys.stderr.flush()
        os._exit(status)
    return status


async def _supervise(daemon: Daemon, stop: asyncio.Event) -> int:
    try:
        await daemon.supervisor.run(stop)
    except Exception as error:
        emit("process.failed", error=error)
        return exit_status(error)
    emit("process.stopped")
    return 0


async def _until_migrated(parts: Parts, notifier: Notifier, stop: asyncio.Event) -> None:
    """Wait for a Postgres that is away; refuse one whose schema is behind (or bring it up)."""
    while not stop.is_set():
        try:
            if parts.config.migrate.auto:
                await migrate.up(parts.config.postgres)
            await migrate.check(parts.config.postgres)
            await sync(parts)
            await _recall(parts)
        except Away as error:
            emit("process.waiting", error=error)
            notifier.status("waiting for Postgres")
            notifier.extend_timeout(30)
            await parts.clock.sleep(1.0)
        else:
            return


async def _recall(parts: Parts) -> None:
    """Redis away is no reason to wait: the divergence loop does it when it is back."""
    try:
        await remember(parts)
    except Away as error:
        emit("loop.away", loop="divergence", error=error, seconds=0.0)


def _metrics(parts: Parts) -> Metrics:
    clock = parts.clock
    metrics = Metrics(
        version=__version__,
        queues=parts.config.engine.queues,
        sources=list(parts.config.webhooks.sources),
        now=lambda: clock.now().timestamp(),
        tasks=[(handle.settings.queue, handle.name) for handle in parts.registry],
    )
    metrics.subscribe()
    return metrics


class _Reload:
    """SIGHUP: validate everything, then swap what may change; a bad file changes nothing."""

    def __init__(
        self, daemon: Daemon, config: Config, path: Path | None, logs: Logs
    ) -> None:
        self._daemon = daemon
        self._config = config
        self._path = path
        self._logs = logs

    def __call__(self) -> None:
        try:
            new = Config.load(self._path)
        except ConfigError as error:
            emit("config.refused", error=error)
            return
        changes, restart = self._config.reloadable_diff(new)
        crew = self._daemon.crew
        if "logs.level" in changes:
            self._logs.set_level(new.logs.level)
        crew.slots = new.workers.slots
        crew.threads.resize(new.workers.threads)
        crew.work.set()
        emit("config.reloaded", changes=changes, restart_needed=restart)


def _heed_signals(supervisor: Supervisor, stop: asyncio.Event, reload: _Reload) -> None:
    """SIGTERM, SIGINT: stop; once more: hurry. SIGHUP: reload."""
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if stop.is_set():
            supervisor.hurry()
        stop.set()

    loop.add_signal_handler(signal.SIGTERM, asked)
    loop.add_signal_handler(signal.SIGINT, asked)
    loop.add_signal_handler(signal.SIGHUP, reload)
