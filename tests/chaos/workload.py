"""The load: dispatches of all kinds at a steady rate, webhooks, and an operator's moves.

Dispatches go through the client's own faulty links. One that is not answered is repeated under its
key until it is: a reply makes it a promise. What a daemon's web side answers with 2xx is a promise,
too; a sender that is not answered so tries again, elsewhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import httpx

from taskengine import TaskEngine, TaskEngineError
from taskengine.errors import ExecutionNotFound, InvalidMove, JobDisabled
from taskengine.model.job import Call
from tests.chaos.cluster import KEY_OF_HOOKS, Cluster
from tests.chaos.jobs import Shelves, alone, flaky, long, quick, sleepy, sure, threaded, urgent
from tests.chaos.ledger import Ledger
from tests.chaos.rare_jobs import killer, rare

_STEP = 0.1
_AT_ONCE = 400
_PATIENCE = 120.0

Draw = Callable[[random.Random], Call]

_MIX: dict[str, tuple[float, Draw]] = {
    "quick": (58, lambda r: quick.call(r.randint(0, 60))),
    "urgent": (12, lambda r: urgent.call(r.randint(0, 30))),
    "flaky": (8, lambda r: flaky.call(r.choice((0, 1, 1, 2, 9)), r.random() < 0.2)),
    "sleepy": (4, lambda r: sleepy.call()),
    "threaded": (4, lambda r: threaded.call(r.randint(1, 60))),
    "alone": (4, lambda r: alone.call(f"k{r.randint(1, 12)}", r.randint(1, 60))),
    "rare": (4, lambda r: rare.call()),
    "sure": (1.5, lambda r: sure.call()),
    "long": (1, lambda r: long.call(r.randint(2, 8))),
    "shelves": (1, lambda r: Shelves.call()),
    "killer": (0.03, lambda r: killer.call(r.choice((1, 1, 1, 9)))),
}


class Workload:
    """Runs until cancelled; `stop` ends new work and waits for what is under way."""

    def __init__(self, cluster: Cluster, engine: TaskEngine, ledger: Ledger, seed: int) -> None:
        self.cluster = cluster
        self.engine = engine
        self.ledger = ledger
        self.rng = random.Random(seed)
        self.stopping = False
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []

    def start(self, rate: float) -> None:
        for loop in (self._dispatching(rate), self._sending(), self._operating()):
            self._loops.append(asyncio.create_task(loop))

    async def stop(self) -> None:
        """No new work; every dispatch under way is answered first."""
        self.stopping = True
        await asyncio.gather(*self._loops)
        await asyncio.gather(*self._tasks)

    def failure(self) -> BaseException | None:
        """What ended a loop of ours, which is a fault of the harness."""
        ended = [task for task in self._loops if task.done() and not task.cancelled()]
        return next((e for task in ended if (e := task.exception())), None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- dispatches --------------------------------------------------------------------------

    async def _dispatching(self, rate: float) -> None:
        """So many a second; what a fault holds up is made good later."""
        begun, made = time.monotonic(), 0.0
        while not self.stopping:
            due = (time.monotonic() - begun) * rate - made
            for _ in range(min(int(due), int(rate * _STEP * 2), _AT_ONCE - len(self._tasks))):
                self._spawn(self._one())
                made += 1
            await asyncio.sleep(_STEP)

    async def _one(self) -> None:
        names, weights = list(_MIX), [weight for weight, _ in _MIX.values()]
        (name,) = self.rng.choices(names, weights)
        call = _MIX[name][1](self.rng)
        self._number += 1
        key = f"c{self._number}"
        if name == "shelves":
            await self._until_answered(lambda: self._fan_out(call, key))
            return
        delay = self.rng.uniform(0.5, 8.0) if self.rng.random() < 0.1 else 0.0
        twice = 2 if self.rng.random() < 0.02 else 1
        same = [self._until_answered(lambda: self._single(call, key, delay)) for _ in range(twice)]
        await asyncio.gather(*same)

    async def _single(self, call: Call, key: str, delay: float) -> None:
        sent = await self.engine.dispatch(call, key=key, delay=delay)
        self.ledger.promise(call.job, sent.key, sent.execution_id)

    async def _fan_out(self, call: Call, key: str) -> None:
        for sent in await self.engine.dispatch_stores(call, key=key):
            self.ledger.promise(call.job, sent.key, sent.execution_id)

    async def _until_answered(self, work: Callable[[], Awaitable[None]]) -> None:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return await work()
            except JobDisabled:
                self.ledger.counts["refused"] += 1
                if not self.stopping:
                    return None
            except TaskEngineError as error:
                self.ledger.counts[f"again: {type(error).__name__}"] += 1
                if time.monotonic() > end:
                    self.ledger.wrong.append(f"a dispatch is refused for ever: {error}")
                    return None
            except Exception as error:  # none of the engine's: callers could not know it
                self.ledger.wrong.append(f"a dispatch raised {type(error).__name__}: {error}")
                self.ledger.counts[f"raised: {type(error).__name__}"] += 1
            await asyncio.sleep(0.3)

    # ---- webhooks ----------------------------------------------------------------------------

    async def _sending(self) -> None:
        async with httpx.AsyncClient(timeout=6) as http:
            senders = set[asyncio.Task[None]]()
            number = 0
            while not self.stopping:
                if len(senders) < 50:
                    number += 1
                    task = asyncio.create_task(self._send(http, f"evt-{number}"))
                    senders.add(task)
                    task.add_done_callback(senders.discard)
                await asyncio.sleep(0.3)
            await asyncio.gather(*senders)

    async def _send(self, http: httpx.AsyncClient, event_id: str) -> None:
        """As providers do: again until it is 2xx, now and then once more even so."""
        body = json.dumps({"id": event_id, "type": "chaos.happened"}).encode()
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            member = self.rng.choice(self.cluster.members)
            url = f"http://127.0.0.1:{member.port}/webhooks/chaos"
            try:
                answer = await http.post(url, content=body, headers=_signed(body))
            except httpx.HTTPError:
                self.ledger.counts["hooks unanswered"] += 1
            else:
                if answer.is_success:
                    self.ledger.events.add(event_id)
                    if self.rng.random() > 0.1:
                        return
                self.ledger.counts[f"hooks answered {answer.status_code}"] += 1
            await asyncio.sleep(0.5)

    # ---- an operator -------------------------------------------------------------------------

    async def _operating(self) -> None:
        """Cancels what is new, redrives what has failed."""
        while not self.stopping:
            await asyncio.sleep(0.5)
            try:
                await self._cancel_some()
                await self._redrive_some()
            except (ExecutionNotFound, InvalidMove):
                self.ledger.counts["moves refused"] += 1
            except TaskEngineError:
                self.ledger.counts["moves unanswered"] += 1

    async def _cancel_some(self) -> None:
        recent = [i for i in list(self.ledger.promised)[-200:] if self.ledger.promised[i] != "sure"]
        if recent:
            answer = await self.engine.cancel(self.rng.choice(recent), by="chaos")
            self.ledger.counts[f"cancel: {answer}"] += 1

    async def _redrive_some(self) -> None:
        async with self.engine.parts.store.connection() as c:
            found = await c.fetch(
                "select id from task_executions where state in ('failed', 'cancelled') "
                "and emptied_at is null and job in ('flaky', 'quick', 'alone', 'long', 'killer') "
                "order by finished_at desc limit 5"
            )
        if found:
            await self.engine.redrive(self.rng.choice(found)["id"], by="chaos")
            self.ledger.counts["redriven"] += 1


def _signed(body: bytes) -> dict[str, str]:
    stamp = int(time.time())
    mac = hmac.new(KEY_OF_HOOKS.encode(), b"%d." % stamp + body, hashlib.sha256).hexdigest()
    return {
        "x-everee-webhook-timestamp": str(stamp),
        "x-everee-webhook-signature": f"v1={mac}",
        "content-type": "application/json",
    }
