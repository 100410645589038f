"""The handle of a job that is a class: its attributes are its settings, its methods what it does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic

from taskengine.errors import InvalidSetting, nearest
from taskengine.model.context import JobContext
from taskengine.model.definition import SETTINGS, settings_from
from taskengine.model.job import BaseJob
from taskengine.model.payload import JsonValue, decode
from taskengine.model.surroundings import StoreInfo

_OWN = ("name", "context", "config_defaults")


class ClassJob:
    """The handle of a `BaseJob` subclass."""

    def __init__(self, cls: type[BaseJob[Any]]) -> None:
        name = getattr(cls, "name", None)
        if not isinstance(name, str):
            raise InvalidSetting(f"{cls.__module__}.{cls.__qualname__} has no `name`")
        declared = {key: getattr(cls, key) for key in SETTINGS if key in _declared(cls)}
        if "config_defaults" in _declared(cls):
            declared["config"] = cls.config_defaults
        self.cls = cls
        self.name = name
        self.settings = settings_from(name, declared)
        self.is_async = inspect.iscoroutinefunction(cls.handle)
        own = inspect.getattr_static(cls, "exclusive_key")
        self.is_exclusive = own is not inspect.getattr_static(BaseJob, "exclusive_key")
        if inspect.iscoroutinefunction(cls.exclusive_key):
            raise InvalidSetting(
                f"{cls.__qualname__}.exclusive_key must only compute: no coroutine"
            )
        asks = cls.verify is not BaseJob.verify
        self.verify_is_async = inspect.iscoroutinefunction(cls.verify) if asks else None

    def body(self, ctx: JobContext) -> Callable[[], Any]:
        return self._made(ctx).handle

    def verifier(self, ctx: JobContext) -> Callable[[], Any]:
        return self._made(ctx).verify

    def dump(self, payload: Mapping[str, JsonValue]) -> str:
        return self.cls.call(**payload).payload

    def scheduled_key(self, fire_time: datetime, store: StoreInfo | None) -> str | None:
        return self.cls.scheduled_key(fire_time, store)

    def exclusive_key(self, payload: str, store: StoreInfo | None) -> str | None:
        values = decode(payload)
        return self.cls.exclusive_key(values if isinstance(values, dict) else {}, store)

    def _made(self, ctx: JobContext) -> BaseJob[Any]:
        job = self.cls()
        job.context = ctx
        return job


def _declared(cls: type) -> set[str]:
    """Values that the class or its bases set; a name that is nearly a setting is a mistake."""
    own = [base for base in cls.__mro__ if base not in (BaseJob, Generic, object)]
    names = {name for base in own for name in vars(base) if not name.startswith("_")}
    values = {name for name in names if _is_value(inspect.getattr_static(cls, name))}
    if "config" in values:
        raise InvalidSetting(f"{cls.__qualname__}.config hides self.config(): use config_defaults")
    for name in values - {*SETTINGS, *_OWN}:
        if hint := nearest(name, SETTINGS, cutoff=0.85):
            raise InvalidSetting(f"{cls.__qualname__}.{name} is no setting{hint}")
    return values


def _is_value(attribute: object) -> bool:
    """Whether a class attribute is data rather than behaviour."""
    return not callable(attribute) and not isinstance(
        attribute, property | classmethod | staticmethod
    )
