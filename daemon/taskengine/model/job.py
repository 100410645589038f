"""What a job is: a class with `handle`, or a decorated function. Both become a `JobHandle`
(`class_job`, `function_job`).

A job's parameters are its payload: checked when dispatched and again when run. `.call(...)` makes
the typed value that `dispatch` takes. Calling a decorated function just runs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, get_args, get_origin

from typing_extensions import TypeVar

from taskengine.errors import PayloadError
from taskengine.model.context import JobContext
from taskengine.model.definition import JobSettings
from taskengine.model.payload import JsonValue, ModelPayload, encode, is_model, model_payload
from taskengine.model.surroundings import EventView, OpensDatabase, StoreInfo

P = TypeVar("P", default=None)


@dataclass(frozen=True, slots=True)
class Call:
    """Which job, with which payload (JSON text): made by `.call(...)`, taken by `dispatch`."""

    job: str
    payload: str


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a body ended, where it says so itself rather than by an exception."""

    ok: bool
    data: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""

    @classmethod
    def success(cls, **data: Any) -> JobResult:
        return cls(True, data)

    @classmethod
    def failure(cls, reason: str, **data: Any) -> JobResult:
        """A failed attempt: retried like an exception."""
        return cls(False, data, reason)


class JobHandle(Protocol):
    """What the engine holds of a job."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> JobSettings: ...
    @property
    def is_async(self) -> bool: ...

    def body(self, ctx: JobContext) -> Callable[[], Any]:
        """The call that runs it; `PayloadError` where the payload does not fit."""

    def dump(self, payload: Mapping[str, JsonValue]) -> str:
        """The JSON text of a payload given by name, checked."""

    def scheduled_key(self, fire_time: datetime, store: StoreInfo | None) -> str | None:
        """The job's own key for a fire time; None: the engine's."""

    @property
    def is_exclusive(self) -> bool:
        """Whether the job computes an exclusive key of its own."""

    def exclusive_key(self, payload: str, store: StoreInfo | None) -> str | None:
        """The key that this payload (JSON text) is exclusive under; None: it is not."""

    @property
    def verify_is_async(self) -> bool | None:
        """None: the job has no verify."""

    def verifier(self, ctx: JobContext) -> Callable[[], Any]:
        """The call that asks whether the work was done, as `body` is the one that does it."""


class BaseJob(Generic[P]):
    """A job as a class: settings are class attributes, `handle` is the body.

    `class Totals(BaseJob[TotalsPayload])` types `self.data`. A plain `def handle` runs in a thread.
    """

    name: ClassVar[str]
    config_defaults: ClassVar[Mapping[str, JsonValue]] = {}
    context: JobContext

    def handle(self) -> Any:
        """The body: a coroutine, or a plain function that runs in a thread."""
        raise NotImplementedError

    def verify(self) -> Any:
        """Was it done? A `Verdict`, by a coroutine or a plain function: asked before `handle` where
        `on_interrupt = "verify"` and an earlier run was cut short."""
        raise NotImplementedError

    @classmethod
    def scheduled_key(cls, fire_time: datetime, store: StoreInfo | None) -> str | None:  # noqa: ARG003
        """The job's own key for a scheduled fire time, e.g. its pay period; None: the engine's."""
        return None

    @classmethod
    def exclusive_key(
        cls,
        payload: Mapping[str, JsonValue],  # noqa: ARG003
        store: StoreInfo | None,  # noqa: ARG003
    ) -> str | None:
        """Of executions with the same key at most one is claimed at a time, in the whole cluster.

        Asked once, at the dispatch, and must only compute; None: this one is not exclusive.
        """
        return None

    @classmethod
    def call(cls, data: P | None = None, /, **values: JsonValue) -> Call:
        """This job with a payload: the model's instance, or JSON values by name."""
        model = _model_of(cls)
        if model is None:
            if data is not None:
                raise PayloadError("$", f"{cls.name} has no payload model: give values by name")
            return Call(cls.name, encode(values))
        return Call(cls.name, model.dump(data) if data is not None else model.check(values))

    @property
    def data(self) -> P:
        """The payload as the job's own model."""
        model = _model_of(type(self))
        if model is None:
            raise TypeError(f"{type(self).__name__} declares no payload model: BaseJob[Model]")
        value: P = model.load(self.context.payload_text or "{}")
        return value

    @property
    def execution_id(self) -> int:
        return self.context.execution_id

    @property
    def attempt(self) -> int:
        return self.context.attempt

    @property
    def is_retry(self) -> bool:
        return self.context.is_retry

    @property
    def store(self) -> StoreInfo | None:
        return self.context.store

    @property
    def type_num(self) -> str | None:
        return self.context.type_num

    @property
    def cursor(self) -> Any:
        return self.context.cursor

    @property
    def event(self) -> EventView:
        return self.context.event

    def config(self, key: str, default: Any = None) -> Any:
        return self.context.config(key, default)

    def payload(self, key: str, default: Any = None) -> Any:
        return self.context.payload(key, default)

    def progress(self, percent: float, message: str | None = None) -> None:
        self.context.progress(percent, message)

    def heartbeat(self) -> None:
        self.context.heartbeat()

    def checkpoint(self) -> None:
        self.context.checkpoint()

    def should_abort(self) -> bool:
        return self.context.should_abort()

    def check_abort(self) -> None:
        self.context.check_abort()

    def log(self, level: str, message: str, /, **fields: Any) -> None:
        self.context.log(level, message, **fields)

    def debug(self, message: str, /, **fields: Any) -> None:
        self.context.log("debug", message, **fields)

    def info(self, message: str, /, **fields: Any) -> None:
        self.context.log("info", message, **fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        self.context.log("warning", message, **fields)

    def error(self, message: str, /, **fields: Any) -> None:
        self.context.log("error", message, **fields)

    def save_cursor(self, value: JsonValue) -> Awaitable[None]:
        return self.context.save_cursor(value)

    def store_db(self) -> OpensDatabase:
        return self.context.store_db()


def _model_of(cls: type[BaseJob[Any]]) -> ModelPayload[Any] | None:
    """The payload model of `BaseJob[Model]`, made once a class."""
    found = vars(cls).get("_payload_model", False)
    if found is not False:
        return found  # type: ignore[no-any-return]
    model = None
    for base in cls.__mro__:
        for origin in getattr(base, "__orig_bases__", ()):
            args = get_args(origin)
            if get_origin(origin) is BaseJob and args and is_model(args[0]):
                model = model or model_payload(args[0])
    cls._payload_model = model  # type: ignore[attr-defined]
    return model
