"""`taskengine.notify-failure`: reports every failure of a job that was not reported yet.

Dispatched by the settling statement, once a job and minute. For now a notice is a log line and a
count; the senders come later. A notice never notifies.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any

from taskengine.lifecycle.parts import Parts
from taskengine.model.context import JobContext
from taskengine.model.definition import JobSettings
from taskengine.model.job import JobResult
from taskengine.model.payload import JsonValue, encode
from taskengine.model.surroundings import StoreInfo
from taskengine.store import notices
from taskengine.telemetry.events import emit

_BATCH = 500


class NotifyFailure:
    """The handle of the built-in job."""

    name = "taskengine.notify-failure"
    is_async = True
    is_exclusive = False
    verify_is_async: bool | None = None

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.settings = JobSettings(
            display_name="Notify of failures",
            queue=parts.notice_queue,
            timeout=60,
            max_attempts=10,
            notify_on_failure=False,
        )

    def body(self, ctx: JobContext) -> Callable[[], Coroutine[Any, Any, JobResult]]:
        return lambda: self._report(ctx)

    async def _report(self, ctx: JobContext) -> JobResult:
        """Batch after batch, until nothing of the job's is unreported."""
        job = str(ctx.payload("job"))
        reported = 0
        while count := await self._report_some(job):
            reported += count
        return JobResult.success(reported=reported)

    async def _report_some(self, job: str) -> int:
        """Take failures and tell of them in one transaction: what is not told stays unreported, and
        is counted as such, once a try where it is not even known how many they are."""
        failures: list[notices.Failure] = []
        try:
            async with self._parts.store.transaction() as c:
                failures = await notices.take(c, job, _BATCH)
                for failure in failures:
                    _tell(job, failure)
        except BaseException as error:
            emit("notices.failed", task=job, count=max(1, len(failures)), error=error)
            raise
        if failures:
            emit("notices.sent", task=job, count=len(failures))
        return len(failures)

    def verifier(self, ctx: JobContext) -> Callable[[], Any]:
        raise NotImplementedError

    def dump(self, payload: Mapping[str, JsonValue]) -> str:
        return encode(dict(payload))

    def exclusive_key(self, payload: str, store: StoreInfo | None) -> str | None:  # noqa: ARG002
        return None

    def scheduled_key(self, fire_time: datetime, store: StoreInfo | None) -> str | None:  # noqa: ARG002
        return None


def _tell(job: str, failure: notices.Failure) -> None:
    emit(
        "notice.failure",
        task=job,
        execution_id=failure.id,
        store=failure.type_num,
        attempt=failure.attempt,
        error=failure.last_error,
    )
