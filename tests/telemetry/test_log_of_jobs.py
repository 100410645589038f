"""What jobs log while they run says which execution it is of, wherever they log it from."""

import asyncio
import io
import json
import logging
from typing import Any

import structlog

from taskengine.model.context import JobContext
from taskengine.model.function_job import job
from taskengine.telemetry import origin
from tests.support.make import Hands
from tests.support.until import until
from tests.telemetry.conftest import SetUp


def of(stream: io.StringIO, message: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in lines if line["message"] == message]


async def inside() -> None:
    structlog.get_logger("shop").info("from a task")


@job("pay", queue="high")
async def pay(ctx: JobContext) -> None:
    logging.getLogger("shop").info("from a coroutine")
    await asyncio.create_task(inside())
    await asyncio.to_thread(logging.getLogger("shop").info, "from a thread of its own")


@job("print", queue="high")
def print_(ctx: JobContext) -> None:
    logging.getLogger("shop").info("from a thread")


async def test_each_line_of_a_job_names_its_execution(hands: Hands, start: SetUp) -> None:
    await hands.know(pay, print_)
    start(stream := io.StringIO(), executions=True)
    async with hands.settling():
        flights = [hands.fly(await hands.running(name)) for name in ("pay", "pay", "print")]
        await until(lambda: all(flight.ended for flight in flights))
    first, second, third = (origin.about(flight.claim) for flight in flights)
    places = ("from a coroutine", "from a task", "from a thread of its own")
    for place in places:
        assert ids(of(stream, place)) == {first["execution_id"], second["execution_id"]}
    (line,) = of(stream, "from a thread")
    assert {"execution_id": third["execution_id"], "task": "print", "queue": "high"}.items() <= (
        line.items()
    )
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    for step in ("execution.started", "execution.succeeded"):
        told = [line for line in lines if line.get("event") == step]
        assert ids(told) == {each["execution_id"] for each in (first, second, third)}
        assert all(line["attempt"] == 1 for line in told)


async def test_what_comes_after_the_body_is_not_the_jobs(hands: Hands, start: SetUp) -> None:
    await hands.know(pay)
    start(stream := io.StringIO())
    await hands.run("pay")
    logging.getLogger("asyncpg").warning("after")
    (line,) = of(stream, "after")
    assert "execution_id" not in line


def ids(lines: list[dict[str, Any]]) -> set[int]:
    return {line["execution_id"] for line in lines}
