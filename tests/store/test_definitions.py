"""Definitions in Postgres: the row wins over the class, and nothing wrong gets into it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from taskengine.errors import (
    InvalidSetting,
    PayloadError,
    ScheduleError,
    TaskEngineError,
    UnknownJob,
    UnknownQueue,
)
from taskengine.lifecycle.parts import Parts
from taskengine.model.definition import Definition, JobSettings
from taskengine.store import definitions, misses
from taskengine.store.misses import NewMiss

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
LATER = datetime(2026, 11, 2, 13, 0, tzinfo=UTC)
QUEUES = ("payroll", "high", "default", "low")

TOTALS = JobSettings(
    display_name="Totals",
    schedule="0 2 * * *",
    time_zone="America/New_York",
    config={"days": 7, "rate": Decimal("1.10"), "nested": {"a": [1, None]}},
)


async def register(parts: Parts, **jobs: JobSettings) -> list[str]:
    async with parts.store.connection() as c:
        return await definitions.register(c, jobs.items(), NOW)


async def change(parts: Parts, now: datetime = LATER, **changes: Any) -> Definition:
    async with parts.store.connection() as c:
        return await definitions.set_(c, "totals", changes, QUEUES, now)


async def get(parts: Parts, name: str = "totals") -> Definition:
    async with parts.store.connection() as c:
        found = await definitions.get(c, name)
    assert found is not None
    return found


async def test_what_is_registered_comes_back_as_it_was_declared(parts: Parts) -> None:
    await register(parts, totals=TOTALS)
    found = await get(parts)
    assert found == Definition("totals", TOTALS, 1, NOW, None)
    assert str(found.settings.config["rate"]) == "1.10"


async def test_a_missing_row_is_inserted_an_existing_one_is_never_overwritten(parts: Parts) -> None:
    assert await register(parts, totals=TOTALS) == ["totals"]
    await change(parts, timeout=77)
    other = replace(TOTALS, timeout=5, schedule="* * * * *")
    assert await register(parts, totals=other, b=TOTALS, a=TOTALS) == ["a", "b"]
    assert (await get(parts)).settings == replace(TOTALS, timeout=77)


async def test_registering_nothing_is_nothing(parts: Parts) -> None:
    assert await register(parts) == []


async def test_a_setting_is_changed_alone(parts: Parts) -> None:
    await register(parts, totals=TOTALS)
    found = await change(parts, retry_backoff=5)
    assert found == Definition("totals", replace(TOTALS, retry_backoff=5), 1, NOW, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": "0 3 * * *"},
        {"time_zone": "UTC"},
        {"schedule": "0 0 3 * * *", "schedule_seconds": True},
        {"scope": "per_store", "time_zone": "store"},
        {"schedule": None},
    ],
)
async def test_a_changed_schedule_begins_now_under_a_new_version(
    parts: Parts, changes: dict[str, Any]
) -> None:
    await register(parts, totals=TOTALS)
    found = await change(parts, **changes)
    assert (found.schedule_version, found.fired_until) == (2, LATER)
    assert found.settings == replace(TOTALS, **changes)


async def test_the_same_schedule_again_changes_nothing(parts: Parts) -> None:
    await register(parts, totals=TOTALS)
    found = await change(parts, schedule=TOTALS.schedule, is_enabled=True)
    assert (found.schedule_version, found.fired_until) == (1, NOW)


async def test_enabling_begins_now_disabling_keeps_the_window(parts: Parts) -> None:
    await register(parts, totals=TOTALS)
    async with parts.store.connection() as c:
        off = await definitions.set_(c, "totals", {"is_enabled": False}, QUEUES)
        assert (off.settings.is_enabled, off.schedule_version, off.fired_until) == (False, 1, NOW)
        on = await definitions.set_(c, "totals", {"is_enabled": True}, QUEUES, LATER)
    assert (on.settings.is_enabled, on.schedule_version, on.fired_until) == (True, 2, LATER)


@pytest.mark.parametrize(
    ("changes", "error", "hint"),
    [
        ({"timeout": 0}, InvalidSetting, "1 to 604800"),
        ({"timeout": True}, InvalidSetting, "whole number"),
        ({"max_attempts": "3"}, InvalidSetting, "whole number"),
        ({"missed": "sometimes"}, InvalidSetting, "skip, latest, all"),
        ({"retry_backof": 3}, InvalidSetting, "did you mean 'retry_backoff'"),
        ({"is_enabled": 1}, InvalidSetting, "true or false"),
        ({"display_name": ""}, InvalidSetting, "some text"),
        ({"config": [1]}, InvalidSetting, "object"),
        ({"config": {"a": float("nan")}}, PayloadError, "a"),
        ({"display_name": "nul\0"}, PayloadError, "display_name"),
        ({"queue": "payrol"}, UnknownQueue, "did you mean 'payroll'"),
        ({"schedule": "0 0 30 2 *"}, ScheduleError, "never"),
        ({"schedule": "every day"}, ScheduleError, "every day"),
        ({"schedule": 5}, InvalidSetting, "cron"),
        ({"time_zone": "Mars/Olympus"}, ScheduleError, "Mars/Olympus"),
        ({"time_zone": "store"}, InvalidSetting, "per_store"),
        ({"schedule_seconds": True}, ScheduleError, "second"),
        ({"timeout": 5, "queue": "nowhere"}, UnknownQueue, "nowhere"),
    ],
)
async def test_what_is_wrong_is_refused_and_nothing_is_changed(
    parts: Parts, changes: dict[str, Any], error: type[TaskEngineError], hint: str
) -> None:
    await register(parts, totals=TOTALS)
    with pytest.raises(error, match=hint):
        await change(parts, **changes)
    assert (await get(parts)).settings == TOTALS


async def test_an_unknown_job_is_refused_with_the_nearest_name(parts: Parts) -> None:
    await register(parts, total=TOTALS)
    with pytest.raises(UnknownJob, match="did you mean 'total'"):
        await change(parts, timeout=5)


async def test_a_broken_row_can_be_read_and_everything_else_of_it_set(parts: Parts) -> None:
    await register(parts, totals=TOTALS, fine=TOTALS)
    async with parts.store.connection() as c:
        await c.execute("update task_job_definitions set schedule = 'x' where name = 'totals'")
        assert [each.name for each in await definitions.all_(c)] == ["fine", "totals"]
        assert [each.name for each in await definitions.scheduled(c)] == ["fine", "totals"]
    assert (await change(parts, timeout=9)).settings.timeout == 9
    assert isinstance(definitions.problem((await get(parts)).settings, QUEUES), ScheduleError)


async def test_an_error_mark_is_cleared_by_setting_what_was_wrong(parts: Parts) -> None:
    await register(parts, totals=replace(TOTALS, queue="nowhere"))
    async with parts.store.connection() as c:
        assert await definitions.mark_error(c, "totals", "no such queue")
        assert not await definitions.mark_error(c, "totals", "no such queue")
    assert (await change(parts, timeout=9)).error == "no such queue"
    assert (await change(parts, queue="low")).error is None
    assert (await get(parts)).error is None


async def test_fired_until_moves_only_from_the_value_and_the_version_read(parts: Parts) -> None:
    await register(parts, totals=TOTALS)
    read = await get(parts)
    async with parts.store.connection() as c:
        assert await definitions.advance(c, read, LATER, QUEUES)
        assert not await definitions.advance(c, read, LATER, QUEUES)
        stale = replace(read, fired_until=LATER, schedule_version=9)
        assert not await definitions.advance(c, stale, NOW, QUEUES)
        await definitions.keep_up(c, [read, stale], NOW)
    assert (await get(parts)).fired_until == LATER


async def test_a_definition_locked_by_somebody_is_left_to_him(parts: Parts) -> None:
    await register(parts, totals=TOTALS)
    read = await get(parts)
    async with parts.store.transaction() as first, parts.store.transaction() as second:
        assert await definitions.advance(first, read, LATER, QUEUES)
        assert not await definitions.advance(second, read, LATER, QUEUES)


async def test_only_scheduled_and_enabled_definitions_are_scanned(parts: Parts) -> None:
    await register(
        parts,
        totals=TOTALS,
        plain=JobSettings(display_name="Plain"),
        off=replace(TOTALS, is_enabled=False),
    )
    async with parts.store.connection() as c:
        assert [each.name for each in await definitions.scheduled(c)] == ["totals"]
        assert await definitions.unknown(c, ["off"]) == ["totals"]
        assert await definitions.unknown(c, ["totals"]) == []


async def test_a_miss_is_recorded_once_and_listed_newest_first(parts: Parts) -> None:
    rows = [NewMiss(None, NOW, "late", None, None), NewMiss("7", NOW, "late", 5, None)]
    async with parts.store.connection() as c:
        assert await misses.record(c, "totals", rows) == 2
        assert await misses.record(c, "totals", rows) == 0
        assert await misses.record(c, "totals", []) == 0
        listed = await misses.list_(c, "totals")
        assert [(m.type_num, m.execution_id) for m in listed] == [("7", 5), (None, None)]
        assert await misses.list_(c, "other") == []
        assert len(await misses.list_(c, limit=1)) == 1
