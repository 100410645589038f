"""The keys of slots: the job's own (`scheduled_key`) where it has one, else the engine's; and the
exclusive key, where the job computes one.

A hook is the user's code: it may raise, block or hang. Guarantees: it runs in a thread, so it never
stops the loop; what it raises counts for its own slot only; one that hangs is waited for once,
a few seconds, and not called again until it has come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import anyio
import anyio.to_thread

from taskengine.errors import InvalidSetting
from taskengine.lifecycle.exclusive import given_or_own
from taskengine.lifecycle.slots import Slot
from taskengine.model.job import JobHandle
from taskengine.model.keys import check_key, scheduled_key, store_key

_SECONDS = 5.0
_THREADS = 40


class Keyed(NamedTuple):
    """A slot and its key; `error` where the hook gave none that can be used."""

    slot: Slot
    key: str
    is_own: bool
    error: Exception | None
    exclusive_key: str | None = None


class Hooks:
    """Asks the jobs' hooks. One is kept for the life of the scheduler."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._limiter: anyio.CapacityLimiter | None = None
        self._asked: dict[str, asyncio.Task[list[Keyed]]] = {}

    async def keys(self, handle: JobHandle, slots: Sequence[Slot]) -> list[Keyed]:
        """The slots with their keys, in their order."""
        if not slots:
            return []
        before = self._asked.get(handle.name)
        if before is not None and not before.done():
            return _hanging(handle.name, slots, "still runs since an earlier turn")
        task = self._asked[handle.name] = asyncio.create_task(self._in_thread(handle, slots))
        await asyncio.wait({task}, timeout=self._seconds)
        if not task.done():
            return _hanging(handle.name, slots, f"has not answered for {self._seconds:g} s")
        return task.result()

    async def _in_thread(self, handle: JobHandle, slots: Sequence[Slot]) -> list[Keyed]:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(
            _keyed, handle, slots, abandon_on_cancel=True, limiter=self._limiter
        )


def _keyed(handle: JobHandle, slots: Sequence[Slot]) -> list[Keyed]:
    return [_one(handle, slot) for slot in slots]


def _one(handle: JobHandle, slot: Slot) -> Keyed:
    engines = _engines(handle.name, slot)
    try:
        exclusive = _exclusive(handle, slot)
        own = handle.scheduled_key(slot.fire_time, slot.store)
        if own is not None:
            check_key(own, f"scheduled_key of job {handle.name!r}")
            key = store_key(own, slot.store.type_num) if slot.store else own
            return Keyed(slot, key, True, None, exclusive)
    except Exception as error:
        return Keyed(slot, engines, False, error)
    except BaseException as error:  # sys.exit() in a hook must not end the scheduler
        raised = InvalidSetting(f"scheduled_key of job {handle.name!r} raised {error!r}")
        return Keyed(slot, engines, False, raised)
    return Keyed(slot, engines, False, None, exclusive)


def _exclusive(handle: JobHandle, slot: Slot) -> str | None:
    if not handle.is_exclusive:
        return None
    return given_or_own(None, handle, handle.dump({}), slot.store)


def _hanging(job: str, slots: Sequence[Slot], problem: str) -> list[Keyed]:
    error = InvalidSetting(f"scheduled_key of job {job!r} {problem}: it must only compute")
    return [Keyed(slot, _engines(job, slot), False, error) for slot in slots]


def _engines(job: str, slot: Slot) -> str:
    return scheduled_key(job, slot.fire_time, slot.type_num)
