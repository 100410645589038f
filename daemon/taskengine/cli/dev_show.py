"""What `taskengine dev` shows: where to look, and the example jobs at work.

A service like any other, started when all others are ready, so that the supervisor ends it first.
Nothing that goes wrong in here ends the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from taskengine.cli.dev_config import EXAMPLES, SOURCE, webhook_key
from taskengine.cli.dev_webhook import body_of, post, signed
from taskengine.client import TaskEngine
from taskengine.errors import TaskEngineError
from taskengine.examples import jobs
from taskengine.lifecycle.parts import Parts
from taskengine.runtime.service import Service
from taskengine.store import stores
from taskengine.telemetry.events import Fields, subscribe

_STORES = (
    ("0101", "Lisbon", "Europe/Lisbon"),
    ("0102", "Denver", "America/Denver"),
    ("0103", "Kolkata", "Asia/Kolkata"),
)
EXAMPLE_JOBS = {
    *("example-tick", "example-shelves", "example-flaky", "example-report", "example-hello"),
}
_END = "execution.succeeded"
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def say(text: str) -> None:
    """A line for the person at the terminal; the log goes to the other stream."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Showcase(Service):
    """Tells the addresses, dispatches the examples, words each end of a job."""

    name = "showcase"

    def __init__(self, parts: Parts, state: Path) -> None:
        self._parts = parts
        self._state = state
        self._started = parts.clock.monotonic()
        self._waited_for = set(EXAMPLE_JOBS)
        web = parts.config.web
        self._host, self._port = _ANY_HOST.get(web.host, web.host), web.port

    async def run(self, ready: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        # A terminal that is closed ends what runs in it; there is no reload here.
        loop.add_signal_handler(signal.SIGHUP, signal.raise_signal, signal.SIGTERM)
        unsubscribe = subscribe(self._tell_end, lambda event: event == _END)
        try:
            ready()
            await self._show()
            await loop.create_future()
        finally:
            unsubscribe()

    async def _show(self) -> None:
        try:
            self._tell_addresses()
            if EXAMPLES in self._parts.config.jobs.modules:
                await self._dispatch(TaskEngine.of(self._parts))
                await self._send_webhook()
            else:
                say("The example jobs are left out: they need the queues payroll, default, low.")
        except (TaskEngineError, OSError) as error:
            say(f"The examples could not be shown: {error}")

    def _tell_addresses(self) -> None:
        host = f"[{self._host}]" if ":" in self._host else self._host
        say(f"\nTaskEngine runs. Its data is in {self._state} and stays there. Ctrl-C stops it.\n")
        say(f"  http://{host}:{self._port}/healthz   and /readyz, /metrics, /webhooks/<source>")
        say(f"  {command()} status   in another terminal, in this folder\n")

    async def _dispatch(self, engine: TaskEngine) -> None:
        async with self._parts.store.connection() as c:
            if not await stores.list_(c):
                for type_num, name, zone in _STORES:
                    await stores.add(c, type_num, name, zone, None)
        await engine.dispatch(jobs.flaky.call())
        await engine.dispatch(jobs.Report.call(pages=10))
        await engine.dispatch_stores(jobs.Shelves.call())

    async def _send_webhook(self) -> None:
        now = self._parts.clock.now()
        body = body_of(f"evt-{self._parts.rng.getrandbits(64):016x}", now)
        headers = signed(webhook_key(self._state), body, now)
        path = f"/webhooks/{SOURCE}"
        status = await asyncio.to_thread(post, self._host, self._port, path, body, headers)
        say(f"Sent a signed webhook to {path}: answered with {status}.")

    def _tell_end(self, event: str, fields: Fields) -> None:  # noqa: ARG002
        """Successes are logged at debug level elsewhere: here they are what one wants to see."""
        store = f" for store {fields['store']}" if fields["store"] else ""
        logging.getLogger("taskengine.dev").info(
            "%s%s succeeded at attempt %s after %.2f s (execution %s)",
            *(fields["task"], store, fields["attempt"], fields["seconds"], fields["execution_id"]),
        )
        self._tick_off(fields["task"])

    def _tick_off(self, task: str) -> None:
        if task in self._waited_for:
            self._waited_for.remove(task)
            if not self._waited_for:
                seconds = self._parts.clock.monotonic() - self._started
                say(f"All {len(EXAMPLE_JOBS)} example jobs have succeeded, after {seconds:.0f} s.")


def command() -> str:
    """How to call this program from this folder."""
    called = Path(sys.argv[0]).absolute()
    if shutil.which("taskengine") == str(called) or called.name != "taskengine":
        return "taskengine"
    here = Path.cwd()
    return str(called.relative_to(here) if called.is_relative_to(here) else called)
