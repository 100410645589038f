"""The site: which path leads where.

Nothing redirects, because a webhook's sender takes a 3xx for a failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route

from taskengine.lifecycle.parts import Parts
from taskengine.telemetry.metrics import Metrics
from taskengine.web.health import Health
from taskengine.web.ingest import Ingest
from taskengine.web.metrics import metrics_page


def build_site(
    parts: Parts, health: Health, metrics: Metrics, more: Sequence[BaseRoute] = ()
) -> Starlette:
    """The application; `more` are further routes, looked at last."""
    routes: list[BaseRoute] = [
        Route("/webhooks/{source}", Ingest(parts).receive, methods=["POST"]),
        Route("/healthz", health.healthz),
        Route("/readyz", health.readyz),
        Route("/metrics", metrics_page(metrics)),
        *more,
    ]
    site = Starlette(routes=routes)
    site.router.redirect_slashes = False
    return site
