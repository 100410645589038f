"""Operators' moves: cancel and redrive."""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.errors import ExecutionEmptied, ExecutionNotFound, InvalidMove
from taskengine.lifecycle.deliver import deliver
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.waking import wake
from taskengine.model.execution import Delivery
from taskengine.store import executions
from taskengine.telemetry.events import emit


async def cancel(parts: Parts, ids: Sequence[int], by: str, reason: str) -> dict[int, str]:
    """For each id: `cancelled`, `requested`, or `already <state>`; `ExecutionNotFound` for others.

    A message that is left behind is dropped by the claim; a running body is asked by the next beat.
    """
    async with parts.store.connection() as c:
        found = {row.id: row for row in await executions.cancel(c, sorted(ids), by, reason)}
    for execution_id in ids:
        if execution_id not in found:
            raise ExecutionNotFound(execution_id)
    words = {row.id: _word(row.found) for row in found.values()}
    for execution_id, word in words.items():
        if not word.startswith("already"):
            emit("execution.cancel_asked", execution_id=execution_id, answer=word, by=by)
    await wake(parts, [row.exclusive_key for row in found.values() if row.found == "pending"])
    return words


def _word(found: str) -> str:
    return {"pending": "cancelled", "running": "requested"}.get(found, f"already {found}")


async def redrive(parts: Parts, execution_id: int, by: str, *, from_start: bool) -> bool:
    """failed, cancelled → pending, pushed at once; whether Redis took it.

    Raises `ExecutionNotFound`, `InvalidMove` (a second press finds it pending), `ExecutionEmptied`.
    """
    check_after = parts.config.recovery.check_after
    async with parts.store.connection() as c:
        rows = await executions.redrive(
            c, [execution_id], by, from_start=from_start, check_after=check_after
        )
    if not rows:
        raise ExecutionNotFound(execution_id)
    row = rows[0]
    if row.queue is None or row.score is None:
        if row.emptied:
            raise ExecutionEmptied(execution_id)
        raise InvalidMove(
            f"execution {execution_id} is {row.found}: only failed and cancelled ones are redriven"
        )
    emit("execution.redriven", execution_id=execution_id, queue=row.queue, by=by)
    return await deliver(parts, [Delivery(execution_id, row.queue, row.score, True)])
