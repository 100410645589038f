"""A body may end as oddly as it likes: its execution is settled all the same, and nobody else's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import pytest

from taskengine import Discard, JobContext, JobResult, Snooze
from tests.support.make import Hands, a_job
from tests.support.until import until


class Proxy:
    """As an unbound proxy of a web framework: it cannot even be asked for its class."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("working outside of context")


class Exits:
    """Ends the process when it is looked at."""

    def model_dump(self) -> object:
        sys.exit(0)

    def __str__(self) -> str:
        raise SystemExit(0)


class Mute(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


def _text(value: object) -> str:
    """What ought to be text and is not."""
    return cast(str, value)


def _raise(error: BaseException) -> Any:
    raise error


_ENDS: dict[str, tuple[Callable[[JobContext], Any], str]] = {
    "discards with an error": (lambda _: _raise(Discard(_text(ValueError("no")))), "failed"),
    "snoozes with a number": (lambda _: _raise(Snooze(hours=1, reason=_text(7))), "pending"),
    "fails without a reason": (lambda _: JobResult.failure(_text(None)), "pending"),
    "returns data that is text": (lambda _: JobResult(True, cast(Any, "abc")), "succeeded"),
    "returns a proxy": (lambda _: Proxy(), "succeeded"),
    "returns what exits": (lambda _: Exits(), "succeeded"),
    "raises what cannot be shown": (lambda _: _raise(Mute()), "pending"),
    "exits": (lambda _: sys.exit(0), "pending"),
    "is interrupted": (lambda _: _raise(KeyboardInterrupt()), "pending"),
    "logs what cannot be shown": (lambda c: c.info(_text(Exits()), field=Exits()), "succeeded"),
    "logs at no level": (lambda c: c.log(_text(Mute()), "line"), "succeeded"),
    "is nowhere": (lambda c: c.progress(float("nan")), "succeeded"),
    "is beyond the end": (lambda c: c.progress(float("inf"), _text(Mute())), "succeeded"),
}


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
@pytest.mark.parametrize("end", _ENDS)
async def test_it_is_settled_at_once(hands: Hands, end: str, kind: str) -> None:
    body, state = _ENDS[end]

    async def in_coroutine(ctx: JobContext) -> Any:
        return body(ctx)

    def in_thread(ctx: JobContext) -> Any:
        return body(ctx)

    await hands.know(a_job("odd", in_coroutine if kind == "coroutine" else in_thread), a_job())
    odd = await hands.dispatch("odd")
    plain = await hands.dispatch()
    async with hands.working():

        async def ended() -> bool:
            rows = await hands.sql(
                "select from task_executions where fence > 0 and state <> 'running'"
            )
            return len(rows) == 2

        await until(ended, 5.0)
    assert await hands.state(odd.execution_id) == state
    assert await hands.state(plain.execution_id) == "succeeded"
    assert hands.crew.inflight.busy == 0
