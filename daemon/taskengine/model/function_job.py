"""`@job`: a function as a job. Its parameters after `ctx` are the payload, typed by `ParamSpec`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from typing_extensions import Unpack

from taskengine.errors import InvalidSetting, PayloadError
from taskengine.model.context import JobContext
from taskengine.model.definition import DeclaredSettings, settings_from
from taskengine.model.job import Call
from taskengine.model.outcome import Verdict
from taskengine.model.payload import JsonValue, signature_model
from taskengine.model.surroundings import StoreInfo

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V", bound=Verdict | Awaitable[Verdict])

KeyHook = Callable[[datetime, StoreInfo | None], str | None]


class FunctionJob(Generic[P, R]):
    """A decorated function: calling it runs it, `.call(...)` makes what `dispatch` takes."""

    def __init__(
        self, name: str, fn: Callable[Concatenate[JobContext, P], R], declared: DeclaredSettings
    ) -> None:
        self.name = name
        self.settings = settings_from(name, declared)
        self.is_async = inspect.iscoroutinefunction(fn)
        self._fn = fn
        self._model = signature_model(fn)
        self._key_hook: KeyHook | None = None
        self._exclusive: Callable[P, str | None] | None = None
        self._verify: Callable[Concatenate[JobContext, P], Any] | None = None
        functools.update_wrapper(self, fn)

    def __call__(self, ctx: JobContext, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._fn(ctx, *args, **kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """This job with a payload; `PayloadError` names what does not fit."""
        if self._model is None:
            return Call(self.name, "{}")
        return Call(self.name, self._model.dump(args, kwargs))

    def scheduled(self, hook: KeyHook) -> KeyHook:
        """Decorates the function that gives the job's own key for a fire time."""
        self._key_hook = hook
        return hook

    def exclusive(self, hook: Callable[P, str | None]) -> Callable[P, str | None]:
        """Decorates the function that computes the exclusive key from the job's own parameters.

        Of executions with the same key at most one is claimed at a time, in the whole cluster; None:
        this one is not exclusive. Asked once, at the dispatch, and must only compute.
        """
        if inspect.iscoroutinefunction(hook):
            raise InvalidSetting(f"exclusive of job {self.name!r} must only compute: no coroutine")
        self._exclusive = hook
        return hook

    def verify(
        self, fn: Callable[Concatenate[JobContext, P], V]
    ) -> Callable[Concatenate[JobContext, P], V]:
        """Decorates the function, of the same parameters, that says whether the work was done."""
        self._verify = fn
        return fn

    # ---- the engine's side -------------------------------------------------------------------

    def body(self, ctx: JobContext) -> Callable[[], Any]:
        return self._bound(self._fn, ctx)

    @property
    def is_exclusive(self) -> bool:
        return self._exclusive is not None

    def exclusive_key(self, payload: str, store: StoreInfo | None) -> str | None:  # noqa: ARG002
        if self._exclusive is None:
            return None
        hook: Callable[..., str | None] = self._exclusive
        return hook(**self._model.arguments(payload)) if self._model is not None else hook()

    @property
    def verify_is_async(self) -> bool | None:
        return None if self._verify is None else inspect.iscoroutinefunction(self._verify)

    def verifier(self, ctx: JobContext) -> Callable[[], Any]:
        if self._verify is None:
            raise NotImplementedError(f"job {self.name!r} has no verify")
        return self._bound(self._verify, ctx)

    def _bound(self, fn: Callable[..., Any], ctx: JobContext) -> Callable[[], Any]:
        """The function with its payload."""
        if self._model is None:
            return functools.partial(fn, ctx)
        return functools.partial(fn, ctx, **self._model.load(ctx.payload_text or "{}"))

    def dump(self, payload: Mapping[str, JsonValue]) -> str:
        if self._model is not None:
            return self._model.check(payload)
        if payload:
            raise PayloadError(f"$.{next(iter(payload))}", f"job {self.name!r} takes no parameters")
        return "{}"

    def scheduled_key(self, fire_time: datetime, store: StoreInfo | None) -> str | None:
        return self._key_hook(fire_time, store) if self._key_hook else None


def job(
    name: str, **settings: Unpack[DeclaredSettings]
) -> Callable[[Callable[Concatenate[JobContext, P], R]], FunctionJob[P, R]]:
    """Make a function a job: `@job("send-paystub", queue="payroll", timeout=60)`.

    Settings are the fields of `JobSettings`; an unknown one is a `TypeError`, one out of bounds an
    `InvalidSetting`, at the decoration. A plain `def` runs in a thread.
    """

    def decorate(fn: Callable[Concatenate[JobContext, P], R]) -> FunctionJob[P, R]:
        return FunctionJob(name, fn, settings)

    return decorate
