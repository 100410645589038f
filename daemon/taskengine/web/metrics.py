"""`/metrics`: what was counted, in the format that the scraper asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from taskengine.telemetry.metrics import Metrics


def metrics_page(metrics: Metrics) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of these metrics. It reads memory only, so it answers whatever is away."""

    async def page(request: Request) -> Response:
        body, kind = metrics.render(request.headers.get("accept"))
        return Response(body, headers={"content-type": kind})

    return page
