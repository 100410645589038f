"""Operators' moves over several executions: each is answered for by itself.

Guarantees: one that is refused or missing holds up none of the others; the exit status is that of
the worst answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from taskengine.cli import out
from taskengine.cli.failure import FAILURE, OK, REFUSED, UNREACHABLE, complain, status_of
from taskengine.cli.session import operator
from taskengine.client import TaskEngine
from taskengine.errors import Away, TaskEngineError, UnknownJob
from taskengine.lifecycle import operate
from taskengine.store import definitions, reports


class Answer(NamedTuple):
    """What became of one execution."""

    id: int
    answer: str


_COLUMNS = [
    out.Column[Answer]("id", lambda each: each.id, right=True),
    out.Column[Answer]("answer", lambda each: each.answer),
]


async def failed_ids(engine: TaskEngine, job: str | None, limit: int) -> list[int]:
    """Failed executions that can run again, the oldest first; `UnknownJob` for a name mistyped."""
    async with engine.parts.store.connection() as c:
        found = await reports.failed(c, job, limit)
        if job is not None and not found:
            known = [each.name for each in await definitions.all_(c)]
            if job not in known:
                raise UnknownJob(job, known)
        return found


async def redrive_all(
    engine: TaskEngine, ids: Sequence[int], *, from_start: bool, as_json: bool
) -> int:
    """Redrive each; the exit status."""

    async def move(execution_id: int) -> str:
        delivered = await operate.redrive(
            engine.parts, execution_id, operator(), from_start=from_start
        )
        taken_there = delivered or not engine.parts.config.redis.enabled
        return "redriven" if taken_there else "redriven, not delivered yet"

    return await _each(ids, move, as_json=as_json, nothing="no failed executions")


async def cancel_all(engine: TaskEngine, ids: Sequence[int], reason: str, *, as_json: bool) -> int:
    """Cancel each; the exit status."""

    async def move(execution_id: int) -> str:
        answers = await operate.cancel(engine.parts, [execution_id], operator(), reason)
        return answers[execution_id]

    return await _each(ids, move, as_json=as_json, nothing="")


async def _each(
    ids: Sequence[int], move: Callable[[int], Awaitable[str]], *, as_json: bool, nothing: str
) -> int:
    """Move one after another; a store that is away ends it, what was done before is shown."""
    answers: list[Answer] = []
    worst = OK
    for execution_id in dict.fromkeys(ids):
        try:
            answer = Answer(execution_id, await move(execution_id))
        except TaskEngineError as error:
            complain(error)
            worst = max(worst, status_of(error), FAILURE)
            if isinstance(error, Away):
                worst = UNREACHABLE
                break
        else:
            answers.append(answer)
            worst = max(worst, _status(answer))
    if answers or not ids:
        out.show(answers, _COLUMNS, Answer._asdict, as_json=as_json, nothing=nothing)
    return worst


def _status(answer: Answer) -> int:
    already = answer.answer.startswith("already") and answer.answer != "already cancelled"
    return REFUSED if already else OK
