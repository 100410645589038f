"""Planted: queues that nobody polls, jobs that nobody knows, schedules that do not fire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from taskengine.store import queues, stores
from tests.insight.doctor_ward import Ward
from tests.support.make import a_job

# ---- queues and jobs -----------------------------------------------------------------------------


async def test_pushed_but_not_polled(ward: Ward) -> None:
    await ward.dispatch()
    await ward.sql("update task_workers set queues = '{low}'")
    assert (await ward.only("queue.unpolled")).about == "default"


async def test_rows_in_a_queue_that_is_listed_nowhere(ward: Ward) -> None:
    sent = await ward.dispatch()
    await ward.reserve()
    await ward.redis("DEL", ward.parts.keys.processing("default"))
    await ward.change(sent.execution_id, queue="gone")
    assert "queue.unlisted" in await ward.codes()


async def test_a_paused_queue_is_a_note(ward: Ward) -> None:
    async with ward.parts.store.connection() as c:
        await queues.pause(c, "low", "me", "a bad deploy")
    found = await ward.only("queue.paused")
    assert found.severity == "note"
    assert found.command == "taskengine queues resume low"


async def test_a_job_that_nobody_knows(ward: Ward) -> None:
    await ward.dispatch()
    await ward.sql("update task_workers set jobs = '{other}'")
    assert (await ward.only("job.unknown")).about == "work"


async def test_a_definition_with_an_error(ward: Ward) -> None:
    await ward.sql("update task_job_definitions set error = 'no such queue'")
    found = await ward.only("job.broken")
    assert found.command == "taskengine jobs show work"


async def test_definitions_that_differ_from_the_code(ward: Ward) -> None:
    jobs = ward.parts.config.jobs.model_copy(update={"modules": ("shop.jobs",)})
    config = ward.parts.config.model_copy(update={"jobs": jobs})
    ward.parts = replace(ward.parts, config=config)
    ward.parts.registry.add(a_job("new"))
    await ward.sql("update task_job_definitions set timeout = 7, max_attempts = 9")
    found = {each.code: each for each in await ward.found()}
    assert list(found) == ["job.differs", "job.unregistered"]
    assert "timeout, max_attempts" in found["job.differs"].text
    assert found["job.unregistered"].about == "new"
    assert {each.severity for each in found.values()} == {"note"}


# ---- schedules -----------------------------------------------------------------------------------


async def _scheduled(ward: Ward, **settings: Any) -> None:
    await ward.well(a_job("nightly", schedule="*/5 * * * *", **settings))
    await ward.sql("update task_workers set started_at = now() - interval '1 h'")


async def test_a_schedule_that_did_not_fire(ward: Ward) -> None:
    await _scheduled(ward)
    assert await ward.found() == []
    await ward.sql("update task_job_definitions set fired_until = now() - interval '1 h'")
    assert (await ward.only("schedule.late")).about == "nightly"
    await ward.sql("update task_workers set started_at = now()")  # it has not had the time yet
    assert await ward.found() == []


async def test_a_schedule_of_each_store_that_did_not_fire(ward: Ward) -> None:
    await _scheduled(ward, scope="per_store", time_zone="store")
    await ward.sql("update task_job_definitions set fired_until = now() - interval '1 h'")
    assert await ward.found() == []  # no store, nothing to fire
    async with ward.parts.store.connection() as c:
        await stores.add(c, "0123", "Lisbon", "Europe/Lisbon", None)
    assert (await ward.only("schedule.late")).about == "nightly"


async def test_a_schedule_ahead_of_the_clock(ward: Ward) -> None:
    await _scheduled(ward)
    await ward.sql("update task_job_definitions set fired_until = now() + interval '1 h'")
    found = await ward.only("schedule.ahead")
    assert found.command == "taskengine jobs disable nightly && taskengine jobs enable nightly"


async def test_a_schedule_that_nobody_knows(ward: Ward) -> None:
    await _scheduled(ward)
    await ward.sql("update task_workers set jobs = '{other}'")
    assert (await ward.only("schedule.nobody_knows")).about == "nightly"


async def test_a_scheduler_that_does_not_tick(ward: Ward) -> None:
    await _scheduled(ward)
    await ward.sql("update task_workers set loops = '{}'")
    await ward.only("scheduler.silent")
