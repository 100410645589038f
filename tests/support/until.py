"""Waiting for what another task, thread or server does: never longer than it takes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

_LOOK = 0.005


@overload
async def until(condition: Callable[[], Awaitable[T]], seconds: float = 20.0) -> T: ...
@overload
async def until(condition: Callable[[], T], seconds: float = 20.0) -> T: ...
async def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """The first true answer of `condition()`; `TimeoutError` where there is none in time."""
    async with asyncio.timeout(seconds):
        while True:
            answer = condition()
            value = await answer if inspect.isawaitable(answer) else answer
            if value:
                return value
            await asyncio.sleep(_LOOK)
