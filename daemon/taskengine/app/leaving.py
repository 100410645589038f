"""The event loop of the process, from its start to its end, whatever jobs do to it.

Guarantees: `sys.exit()` in a task that a job has started does not end the daemon; once the work is
done, neither a task that swallows its cancellation nor (by `leave`) a thread that goes on keeps the
process alive.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from taskengine.telemetry import logs
from taskengine.telemetry.events import emit

_SECONDS = 1.0  # for what jobs left behind to end


def run_to_end(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run the work on a loop of its own; its answer is the exit status of the process."""
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    ended = True
    try:
        status, ended = _run(runner, work)
        return status
    finally:
        if ended:  # else closing it would wait for what goes on
            runner.close()


def leave(status: int) -> None:
    """End the process here if threads go on that it would wait for. The last thing to be called."""
    if _threads():
        sys.stdout.flush()
        sys.stderr.flush()
        logs.flush()
        os._exit(status)


def _run(runner: asyncio.Runner, work: Callable[[], Coroutine[Any, Any, int]]) -> tuple[int, bool]:
    """The work's answer, and whether nothing of it goes on."""
    main: asyncio.Task[tuple[int, bool]] | None = None

    async def whole() -> tuple[int, bool]:
        nonlocal main
        main = asyncio.current_task()
        status = await work()
        return status, await _ended()

    try:
        return runner.run(whole())
    except SystemExit as error:
        emit("process.exit_refused", error=error)
    while main is not None and not main.done():
        try:
            return runner.get_loop().run_until_complete(main)
        except SystemExit as error:
            emit("process.exit_refused", error=error)
    return 1, False


async def _ended() -> bool:
    """End the tasks and threads that jobs left to the loop; whether all of them have."""
    loop = asyncio.get_running_loop()
    rest: set[asyncio.Task[Any]] = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    rest.add(loop.create_task(loop.shutdown_default_executor()))
    _, pending = await asyncio.wait(rest, timeout=_SECONDS)
    return not pending


def _threads() -> bool:
    """Whether threads go on that the interpreter would wait for."""
    others = [t for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()]
    for thread in others:
        thread.join(_SECONDS / len(others))
    return any(thread.is_alive() for thread in others)
