"""The composition root: builds the daemon from its configuration.

The order of the tiers is the order of the start; the drain goes the other way, so that health
answers and leases hold to the very end, and work ends before what feeds and heals it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass

from taskengine.app.watching import watch_loops
from taskengine.config import Config
from taskengine.lifecycle.backstage import Engine
from taskengine.lifecycle.beats import Identity, Watch
from taskengine.lifecycle.crew import Crew
from taskengine.lifecycle.dispatch import Dispatcher
from taskengine.lifecycle.membership import Membership
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.presence import host
from taskengine.lifecycle.store_databases import StoreDatabases
from taskengine.runtime.clock import Clock
from taskengine.runtime.service import Service
from taskengine.runtime.supervisor import Limits, Supervisor, Tier
from taskengine.runtime.systemd import Notifier, control_socket, listen_fds, watchdog_interval
from taskengine.services.control import Control
from taskengine.services.deliveries import Deliveries
from taskengine.services.divergence import Divergence
from taskengine.services.gauges import GaugeRefresher
from taskengine.services.heartbeat import Heartbeat
from taskengine.services.lag import LoopLag
from taskengine.services.neglect import Neglect
from taskengine.services.orphans import DeadWorkers, OverTime, Reservations
from taskengine.services.promoter import Promoter
from taskengine.services.retention import Retention
from taskengine.services.scheduler import Scheduler
from taskengine.services.status_line import StatusLine
from taskengine.services.waker import Waker
from taskengine.services.webhooks import StrandedWebhooks
from taskengine.services.worker import Worker
from taskengine.telemetry.metrics import Metrics
from taskengine.web.health import Health
from taskengine.web.server import WebServer, inherited
from taskengine.web.site import build_site

_DRAIN_MARGIN = 15.0  # seconds beyond the drain time-out: to ask, to cancel, to settle

Guest = Callable[[Parts], Service]


@dataclass(frozen=True)
class Daemon:
    """The services of a daemon and what the process around them needs.

    `web` is None where `[web] enabled = false`, `control` where nothing says its place.
    """

    parts: Parts
    crew: Crew
    databases: StoreDatabases
    web: WebServer | None
    control: Control | None
    status_line: StatusLine
    tiers: list[Tier]
    notifier: Notifier

    @property
    def services(self) -> list[Service]:
        return [service for tier in self.tiers for service in tier.services]

    def supervisor(self) -> Supervisor:
        limits = _limits(self.parts.config)
        return Supervisor(self.tiers, self.parts.clock, limits, self.notifier)


def build(parts: Parts, metrics: Metrics, notifier: Notifier, guest: Guest | None = None) -> Daemon:
    """Put the services together, a guest of whoever runs the daemon last. Needs a running loop."""
    identity = Identity(name=f"{host()}/{os.getpid()}")
    token = parts.draw_token()
    databases = StoreDatabases(parts)
    crew = Crew(parts, identity, lambda inflight: Engine(parts, inflight, databases, identity.name))
    watch = Watch(parts.config.heartbeat.lease, parts.config.heartbeat.beat)
    tiers: list[Tier] = []
    web = _web(parts, crew, metrics, tiers)
    place = parts.config.workers.control_socket or control_socket()
    control = None if place is None else Control(place)
    status_line = StatusLine(parts, crew, notifier)
    daemon = Daemon(parts, crew, databases, web, control, status_line, tiers, notifier)
    membership = Membership(parts, identity, token)
    heartbeat = Heartbeat(
        parts, crew, membership, watch, lambda: loops(daemon.services, parts.clock)
    )
    answers = tuple(each for each in (web, heartbeat, control) if each is not None)
    tiers += [
        Tier("answers and leases hold to the very end", answers),
        Tier(
            "heals what the others leave behind, and shows how things stand",
            (
                *_sweeps(parts, crew, watch, token),
                GaugeRefresher(parts, crew, token, metrics.gauges),
                status_line,
                LoopLag(parts.clock, metrics.gauges.event_loop_lag),
            ),
        ),
    ]
    if parts.config.redis.enabled:
        tiers += [
            Tier("feeds the workers", (Promoter(parts, identity),)),
            Tier("works", (Waker(parts, crew.work.set, crew.acquirer.forget_pauses), Worker(crew))),
        ]
    else:
        tiers.append(Tier("works", (Worker(crew),)))
    if parts.config.scheduler.enabled:
        tiers.append(Tier("asks for new work, so it stops first", (Scheduler(parts, identity),)))
    if guest is not None:
        tiers.append(Tier("belongs to who runs the daemon", (guest(parts),)))
    watch_loops(metrics, daemon.services, parts, identity)
    return daemon


def _web(parts: Parts, crew: Crew, metrics: Metrics, tiers: list[Tier]) -> WebServer | None:
    settings = parts.config.web
    if not settings.enabled:
        return None
    health = Health(
        parts,
        lambda: [service for tier in tiers for service in tier.services],
        lambda: crew.identity.draining,
    )
    site = build_site(parts, health, metrics)
    return WebServer(site, settings, parts.clock, inherited(listen_fds()))


def _sweeps(parts: Parts, crew: Crew, watch: Watch, token: int) -> tuple[Service, ...]:
    identity = crew.identity
    of_redis = (
        Reservations(parts),
        Deliveries(parts, identity, token),
        Divergence(parts, identity, token),
    )
    return (
        DeadWorkers(parts, identity, watch),
        *(of_redis if parts.config.redis.enabled else ()),
        OverTime(parts, identity, token),
        StrandedWebhooks(parts, identity, token, Dispatcher(parts)),
        Retention(parts, identity, token),
        Neglect(parts, identity, token),
    )


def _limits(config: Config) -> Limits:
    watchdog = watchdog_interval()
    return Limits(
        stall=config.heartbeat.stall_limit,
        drain=config.workers.drain_timeout + _DRAIN_MARGIN,
        look=min(5.0, watchdog) if watchdog else 5.0,
    )


def loops(services: list[Service], clock: Clock) -> str:
    """Each loop's last turn, as JSON: what a beat carries to whoever asks."""
    now = clock.monotonic()
    told = {each.name: each.report(now) for each in services}
    return json.dumps({name: each for name, each in told.items() if each}, default=str)
