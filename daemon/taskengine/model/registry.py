"""The jobs that this process knows: found in the modules that the config names, and built in."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, TypeGuard

from taskengine.errors import ConfigError, InvalidSetting, TaskEngineError, UnknownJob
from taskengine.model.class_job import ClassJob
from taskengine.model.function_job import FunctionJob
from taskengine.model.job import BaseJob, JobHandle


class Registry:
    """Jobs by name. A name is one job's: a second one is refused."""

    def __init__(self, handles: Iterable[JobHandle] = ()) -> None:
        self._handles: dict[str, JobHandle] = {}
        for handle in handles:
            self.add(handle)

    def add(self, job: JobHandle | type[BaseJob]) -> None:
        handle = ClassJob(job) if isinstance(job, type) else job
        check_verify(handle, handle.settings.on_interrupt)
        known = self._handles.get(handle.name)
        if known is not None and known is not handle:
            raise InvalidSetting(f"two jobs are named {handle.name!r}")
        self._handles[handle.name] = handle

    def add_module(self, module: ModuleType) -> None:
        """Every job that the module itself defines."""
        for value in list(vars(module).values()):
            if _is_job(value) and value.__module__ == module.__name__:
                self.add(value)

    def get(self, name: str) -> JobHandle | None:
        return self._handles.get(name)

    def __getitem__(self, name: str) -> JobHandle:
        handle = self._handles.get(name)
        if handle is None:
            raise UnknownJob(name, self._handles)
        return handle

    def __iter__(self) -> Iterator[JobHandle]:
        return iter(self._handles.values())

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def names(self) -> list[str]:
        return sorted(self._handles)

    @classmethod
    def load(cls, modules: Iterable[str]) -> Registry:
        """The registry of these modules; `ConfigError` names the module that cannot be imported."""
        registry = cls()
        for name in modules:
            try:
                registry.add_module(importlib.import_module(name))
            except TaskEngineError as error:
                raise ConfigError(f"[jobs] modules: {name!r}: {error}") from error
            except Exception as error:  # whatever is wrong in there, a restart would not mend it
                raise ConfigError(
                    f"[jobs] modules names {name!r}, which cannot be imported: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return registry


def check_verify(job: JobHandle, on_interrupt: object) -> None:
    """`InvalidSetting` where a job that cannot be asked would be."""
    if on_interrupt == "verify" and job.verify_is_async is None:
        raise InvalidSetting(
            f"on_interrupt = 'verify', but job {job.name!r} has no verify: give it a `verify` that "
            "answers a Verdict (in a class, or by `@<job>.verify`)"
        )


def _is_job(value: object) -> TypeGuard[FunctionJob[..., Any] | type[BaseJob[Any]]]:
    """A decorated function, or a class of a job that has its name."""
    return isinstance(value, FunctionJob) or (
        inspect.isclass(value)
        and issubclass(value, BaseJob)
        and value is not BaseJob
        and isinstance(getattr(value, "name", None), str)
    )
