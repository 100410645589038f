"""At the daemon's start: what is missing is registered, what is wrong is marked and told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskengine.lifecycle.definitions import Difference, diff, sync
from taskengine.lifecycle.parts import Parts
from taskengine.model.context import JobContext
from taskengine.model.function_job import job
from taskengine.store import definitions
from tests.support.scheduling import World, scheduled


@pytest.fixture
def world(parts: Parts) -> Iterator[World]:
    world = World(parts)
    yield world
    world.close()


async def error_of(world: World, name: str) -> str | None:
    async with world.parts.store.connection() as c:
        found = await definitions.get(c, name)
    assert found is not None
    return found.error


async def test_the_jobs_of_the_code_are_registered_once(world: World) -> None:
    world.parts.registry.add(scheduled("a"))
    world.parts.registry.add(scheduled("b"))
    assert await sync(world.parts) == ["a", "b"]
    assert await sync(world.parts) == []
    assert [each["count"] for each in world.told("job.registered")] == [2, 2]


async def test_a_definition_in_a_queue_that_is_not_listed_is_marked_with_those_that_are(
    world: World,
) -> None:
    world.parts.registry.add(scheduled("lost", queue="payrol"))
    world.parts.registry.add(scheduled("fine"))
    await sync(world.parts)
    assert "did you mean 'payroll'" in str(await error_of(world, "lost"))
    assert await error_of(world, "fine") is None
    assert [each["task"] for each in world.told("job.skipped")] == ["lost"]


async def test_a_schedule_that_cannot_be_evaluated_is_marked_and_told_at_every_start(
    world: World,
) -> None:
    world.parts.registry.add(scheduled("totals"))
    await sync(world.parts)
    await world.sql("update task_job_definitions set time_zone = 'Mars/Olympus'")
    await sync(world.parts)
    await sync(world.parts)
    assert "Mars/Olympus" in str(await error_of(world, "totals"))
    assert [each["task"] for each in world.told("schedule.broken")] == ["totals", "totals"]


async def test_a_mark_is_cleared_when_the_definition_is_right_again(world: World) -> None:
    world.parts.registry.add(scheduled("totals"))
    await sync(world.parts)
    await world.sql("update task_job_definitions set error = 'was wrong once'")
    await sync(world.parts)
    assert await error_of(world, "totals") is None
    assert [each["task"] for each in world.told("job.mended")] == ["totals"]


async def test_a_mark_of_somebody_elses_job_is_left_to_its_own_daemon(world: World) -> None:
    await world.register(scheduled("theirs"))
    await world.sql("update task_job_definitions set error = 'only they can see it'")
    await sync(world.parts)
    assert await error_of(world, "theirs") == "only they can see it"


async def test_a_scheduled_job_that_needs_a_payload_is_marked(world: World) -> None:
    @job("send", schedule="* * * * *")
    async def send(ctx: JobContext, employee: int) -> None:
        """Nobody says which employee."""

    world.parts.registry.add(send)
    await sync(world.parts)
    assert "employee" in str(await error_of(world, "send"))


async def test_the_differences_between_rows_and_code_are_named(world: World) -> None:
    await world.add(scheduled("totals", timeout=60), scheduled("same"))
    await world.register(scheduled("gone"))
    world.parts.registry.add(scheduled("new"))
    await world.sql("update task_job_definitions set timeout = 90 where name = 'totals'")
    found = await diff(world.parts)
    assert found.changed == [Difference("totals", "timeout", 60, 90)]
    assert (found.missing, found.foreign) == (["new"], ["gone"])
