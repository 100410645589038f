"""The benchmark's jobs: one that does nothing, one that records when it started."""

from __future__ import annotations

import os
import struct
import time

from taskengine.model.context import JobContext
from taskengine.model.function_job import job

RECORD = struct.Struct("<dd")
_FILE = os.environ.get("TASKENGINE_BENCH_RECORDS", "/dev/null")
_records = os.open(_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@job("bench-noop")
async def noop(ctx: JobContext) -> None:
    """Nothing at all."""


@job("bench-started")
async def started(ctx: JobContext, at: float) -> None:
    """Append (when dispatched, when started) to a file that all processes share."""
    os.write(_records, RECORD.pack(at, time.time()))
