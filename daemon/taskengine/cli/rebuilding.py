"""What `taskengine rebuild-delivery` does and shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskengine.cli import out
from taskengine.errors import UnknownQueue
from taskengine.lifecycle.parts import Parts
from taskengine.lifecycle.rebuild import plan, rebuild, recall, rewrite


@dataclass(frozen=True)
class Line:
    """A queue: what was delivered, or what would be pushed and delayed and has no message now."""

    queue: str
    delivered: int | None = None
    due: int | None = None
    delayed: int | None = None
    missing: int | None = None


@dataclass(frozen=True)
class Rebuilding:
    """`remembers`: whether Redis knew its memory before."""

    dry_run: bool
    remembers: bool
    lines: Sequence[Line]
    seconds: float
    whole: bool


_DRY = [
    out.Column[Line]("queue", lambda each: each.queue),
    out.Column[Line]("would push", lambda each: each.due, right=True),
    out.Column[Line]("would delay", lambda each: each.delayed, right=True),
    out.Column[Line]("missing now", lambda each: each.missing, right=True),
]
_DONE = [
    out.Column[Line]("queue", lambda each: each.queue),
    out.Column[Line]("delivered", lambda each: each.delivered, right=True),
]


async def run(parts: Parts, queue: str | None, *, dry_run: bool) -> Rebuilding:
    """Raises `UnknownQueue`, `WrongDatabase`, `Away`."""
    if queue is not None and queue not in parts.queues.names:
        raise UnknownQueue(queue, parts.queues.names)
    began = parts.clock.monotonic()
    seen = await recall(parts)
    remembers = seen.is_good(parts.memory.identity, parts.memory.generation)
    if dry_run:
        lines = [await _plan(parts, each) for each in ([queue] if queue else parts.queues.names)]
    elif queue is not None:
        lines = [Line(queue, await rewrite(parts, queue))]
    else:
        lines = [Line(name, count) for name, count in (await rebuild(parts)).queues.items()]
    seconds = parts.clock.monotonic() - began
    return Rebuilding(dry_run, remembers, lines, seconds, whole=queue is None)


async def _plan(parts: Parts, queue: str) -> Line:
    found = await plan(parts, queue)
    return Line(queue, None, found.due, found.delayed, found.missing)


def show(done: Rebuilding, *, as_json: bool) -> None:
    """A table and a message, or one object."""
    if as_json:
        out.line(shape(done))
        return
    out.table(_DRY if done.dry_run else _DONE, done.lines)
    if not done.remembers and (done.dry_run or not done.whole):
        out.note("Redis does not remember what it was told: run it for all queues")
    if not done.dry_run:
        total = sum(each.delivered or 0 for each in done.lines)
        out.note(f"{total} delivered in {done.seconds:.2f} s")


def shape(done: Rebuilding) -> dict[str, object]:
    """The JSON object."""
    return {
        "dry_run": done.dry_run,
        "remembers": done.remembers,
        "seconds": round(done.seconds, 3),
        "queues": [
            {
                "queue": each.queue,
                "delivered": each.delivered,
                "due": each.due,
                "delayed": each.delayed,
                "missing": each.missing,
            }
            for each in done.lines
        ],
    }
