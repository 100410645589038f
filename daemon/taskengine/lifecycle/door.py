"""Why the door refused a dispatch: the insert left it out, and no execution holds its key."""

from __future__ import annotations

from collections.abc import Sequence

from taskengine.errors import (
    InvalidSetting,
    JobDisabled,
    PayloadError,
    StoreBusy,
    StoreRequired,
    TaskEngineError,
    UnknownJob,
    UnknownQueue,
    UnknownStore,
)
from taskengine.store.execution_rows import Found, NewExecution


def refusal(row: NewExecution, seen: Found, queues: Sequence[str]) -> TaskEngineError:
    """Why the insert left this row out. What cannot be explained was a race: the caller repeats."""
    if not seen.job_known:
        return UnknownJob(row.job, seen.known_jobs or ())
    if not seen.is_enabled:
        return JobDisabled(row.job)
    queue = row.queue or seen.job_queue
    if queue not in queues:
        return UnknownQueue(queue or "", queues)
    if seen.scope == "per_store" and row.type_num is None:
        return StoreRequired(row.job)
    if seen.scope == "global" and row.type_num is not None:
        return InvalidSetting(f"job {row.job!r} is global: it takes no store")
    if row.type_num is not None and not seen.store_known:
        return UnknownStore(row.type_num, seen.known_stores or ())
    limit = seen.max_payload_bytes or 0
    if len(row.payload.encode()) > limit:
        return PayloadError("$", f"larger than max_payload_bytes ({limit}) of job {row.job!r}")
    return StoreBusy(f"the row of key {row.key!r} was removed meanwhile: dispatch again")
