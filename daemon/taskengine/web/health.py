"""`/healthz`: does every loop move? `/readyz`: may this daemon be sent work?

Guarantees: both answer fast whatever is away (what is asked of Postgres is asked within two
seconds, once at a time, and remembered for a moment); Redis away fails neither, because webhooks
are still stored and workers claim without it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from taskengine.errors import Away, MigrationError
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.service import Periodic, Service
from taskengine.store import migrate, reports

_ASK_SECONDS = 2.0


class Health:
    """Looks at the services of this process and at its database.

    `services` and `draining` are asked at each request: the supervisor is made after the site.
    `remember`: seconds for which an answer of Postgres is good.
    """

    def __init__(
        self,
        parts: Parts,
        services: Callable[[], Sequence[Service]],
        draining: Callable[[], bool],
        remember: float = 5.0,
    ) -> None:
        self._parts = parts
        self._services = services
        self._draining = draining
        self._remember = remember
        self._asked_at: float | None = None
        self._problems: list[str] = []
        self._asking = asyncio.Lock()

    async def healthz(self, request: Request) -> Response:  # noqa: ARG002
        """200, or 503 where a loop stands still; each loop's last turn in the body."""
        loops = {service.name: self._loop(service) for service in self._services()}
        stalled = sorted(name for name, loop in loops.items() if loop["stalled"])
        status = "stalled" if stalled else "ok"
        return _json({"status": status, "stalled": stalled, "loops": loops}, bad=bool(stalled))

    async def readyz(self, request: Request) -> Response:  # noqa: ARG002
        """200, or 503 with the problems in words."""
        problems = ["draining"] if self._draining() else []
        problems += await self._of_postgres()
        body = {
            "ready": not problems,
            "problems": problems,
            "redis": "up" if self._parts.client.away_since is None else "away",
        }
        return _json(body, bad=bool(problems))

    def _loop(self, service: Service) -> dict[str, Any]:
        now = self._parts.clock.monotonic()
        limit = self._parts.config.heartbeat.stall_limit
        shown: dict[str, Any] = {"stalled": service.stalled(now, limit)}
        if isinstance(service, Periodic):
            shown |= service.report(now)
        return shown

    async def _of_postgres(self) -> list[str]:
        async with self._asking:
            now = self._parts.clock.monotonic()
            if self._asked_at is None or now - self._asked_at >= self._remember:
                self._problems = await self._ask()
                self._asked_at = self._parts.clock.monotonic()
            return self._problems

    async def _ask(self) -> list[str]:
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                await migrate.check(self._parts.config.postgres)
                async with self._parts.store.connection() as c:
                    found = await reports.unlisted(c, self._parts.config.engine.queues)
        except MigrationError as error:
            return [str(error)]
        except (Away, TimeoutError):
            return ["Postgres is away"]
        return [
            f"{each.pending} executions wait in queue {each.queue!r}, which is not in [engine] queues"
            for each in found
        ]


def _json(body: dict[str, Any], *, bad: bool) -> Response:
    text = json.dumps(body, default=str)
    return Response(text, 503 if bad else 200, {"cache-control": "no-store"}, "application/json")
