"""TaskEngine: the queue delivers, the database decides.

    from taskengine import BaseJob, JobContext, JobResult, TaskEngine, job

Names are handed on lazily (PEP 562): a command line's help need not load a database driver.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "BaseJob": "model.job",
    "Call": "model.job",
    "ClaimLost": "errors",
    "Discard": "model.outcome",
    "Dispatched": "model.execution",
    "Execution": "model.execution",
    "JobContext": "model.context",
    "JobResult": "model.job",
    "Retry": "model.outcome",
    "Snooze": "model.outcome",
    "State": "model.execution",
    "StoreInfo": "model.surroundings",
    "TaskEngine": "client",
    "TaskEngineError": "errors",
    "Verdict": "model.outcome",
    "job": "model.function_job",
}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604  names from a table


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'taskengine' has no attribute {name!r}")
    return getattr(import_module(f"taskengine.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
