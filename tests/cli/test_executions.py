"""`taskengine executions`: listed, shown whole, redriven, cancelled."""

from __future__ import annotations

import pytest

from taskengine.store import logs
from taskengine.store.logs import NewLine
from tests.cli.conftest import Cli
from tests.support.make import DISCARDED, FAILED, Hands, a_job

_FIELDS = [
    *("id", "job", "key", "queue", "store", "subject", "state", "attempt", "orphanings"),
    *("interruptions", "fence", "run_at", "created_at", "claimed_at", "deadline_at"),
    *("finished_at", "scheduled_for", "abort_requested_at", "progress", "progress_message"),
    *("payload", "cursor", "result", "result_error", "last_error", "worker"),
    "exclusive_key",
]
_ATTEMPT = [
    *("attempt", "fence", "move", "reason", "by", "error", "traceback"),
    *("started_at", "ended_at", "worker"),
]


@pytest.fixture
async def world(hands: Hands) -> Hands:
    await hands.know(
        a_job("work", max_attempts=1, notify_on_failure=False),
        a_job("other", queue="low", max_attempts=1, notify_on_failure=False),
    )
    return hands


async def _failed(world: Hands, job: str = "work", key: str | None = None) -> int:
    claim = await world.running(job, key)
    await world.settle(claim, FAILED)
    return claim.id


async def test_the_list_is_the_newest_first_and_filtered(world: Hands, cli: Cli) -> None:
    first = await world.dispatch("work", "a")
    second = await world.dispatch("other", "b", subject="job:x")
    failed = await _failed(world, "work", "c")
    found = (await cli("executions", "list", "--json")).objects
    assert [each["id"] for each in found] == [failed, second.execution_id, first.execution_id]
    assert all(list(each) == _FIELDS for each in found)

    async def ids(*args: object) -> list[int]:
        return [each["id"] for each in (await cli("executions", "list", "--json", *args)).objects]

    assert await ids("--state", "failed") == [failed]
    assert await ids("--job", "other") == [second.execution_id]
    assert await ids("--queue", "default", "--limit", 1) == [failed]
    assert await ids("--before", second.execution_id) == [first.execution_id]
    assert await ids("--store", "x") == []


async def test_c106_text_of_users_cannot_steer_the_terminal(world: Hands, cli: Cli) -> None:
    sent = await world.dispatch("work", "<img src=x onerror=alert(1)>\x1b[2J\r\nforged")
    await world.change(sent.execution_id, last_error="\x1b]0;owned\x07 password=hunter2\nsecond")
    async with world.parts.store.connection() as c:
        at = world.parts.clock.now()
        await logs.append(
            c, [NewLine(sent.execution_id, 1, at, "info", "a\x1b[31m\nforged", '{"k": "\x9b"}')]
        )
    for args in (("list",), ("show", sent.execution_id), ("list", "--json")):
        result = await cli("executions", *args)
        assert result.status == 0
        assert not set(result.out) & set("\x1b\x07\r\x9b")
        assert "hunter2" not in result.out
        assert not [line for line in result.out.splitlines() if line.startswith("forged")]
    (shown,) = (await cli("executions", "list", "--json")).objects
    assert shown["key"] == "<img src=x onerror=alert(1)>\x1b[2J\r\nforged"


async def test_one_is_shown_with_its_history_and_its_log(world: Hands, cli: Cli) -> None:
    failed = await _failed(world)
    async with world.parts.store.connection() as c:
        at = world.parts.clock.now()
        await logs.append(c, [NewLine(failed, 1, at, "info", "hello", '{"price": 1.10}')])
    result = await cli("executions", "show", failed, "--json")
    assert result.status == 0
    whole = result.object
    assert list(whole) == [*_FIELDS, "history", "log"]
    (attempt,) = whole["history"]
    assert list(attempt) == _ATTEMPT
    assert (attempt["move"], attempt["error"]) == ("failed", "ValueError: no")
    assert list(whole["log"][0]) == ["attempt", "at", "level", "message", "fields"]
    assert '"fields": {"price": 1.10}' in result.out
    page = (await cli("executions", "show", failed)).out
    for text in (
        f"{failed} work · failed · attempt 1",
        "ValueError: no",
        "last traceback",
        "hello",
    ):
        assert text in page


async def test_what_does_not_exist_is_not_found(world: Hands, cli: Cli) -> None:
    for verb in ("show", "redrive", "cancel"):
        result = await cli("executions", verb, 2**63 - 1)
        assert (result.status, result.out) == (3, "")
        assert "no execution 9223372036854775807" in result.err


async def test_a_redrive_runs_it_again_and_a_second_press_is_refused(
    world: Hands, cli: Cli
) -> None:
    failed = await _failed(world)
    for verb, status in (("redrive", 0), ("retry", 4)):
        result = await cli("executions", verb, failed, "--json")
        assert result.status == status
        if status == 0:
            assert result.object == {"id": failed, "answer": "redriven"}
        else:
            assert f"execution {failed} is pending" in result.err
    assert await world.history(failed) == ["failed", "redriven"]
    assert await world.at(failed) == "queue"


async def test_one_that_is_refused_holds_up_none_of_the_others(world: Hands, cli: Cli) -> None:
    first, second = await _failed(world), await _failed(world)
    pending = (await world.dispatch()).execution_id
    result = await cli("executions", "redrive", first, pending, second, first, "--json")
    assert result.status == 4
    assert [each["id"] for each in result.objects] == [first, second]


async def test_all_that_failed_is_redriven_only_when_meant(world: Hands, cli: Cli) -> None:
    ids = [await _failed(world) for _ in range(3)] + [await _failed(world, "other")]
    result = await cli("executions", "redrive", "--failed")
    assert (result.status, result.out) == (4, "")
    assert "Redrive 4 failed executions? Nobody can be asked here: say --yes" in result.err
    assert [await world.state(each) for each in ids] == ["failed"] * 4
    some = await cli(
        "executions", "redrive", "--failed", "--job", "work", "--limit", 2, "--yes", "--json"
    )
    assert [each["id"] for each in some.objects] == ids[:2]
    rest = await cli("executions", "redrive", "--failed", "--yes", "--json")
    assert [each["id"] for each in rest.objects] == ids[2:]
    none = await cli("executions", "redrive", "--failed", "--yes")
    assert (none.status, none.out) == (0, "")
    mistyped = await cli("executions", "redrive", "--failed", "--job", "wrok", "--yes")
    assert (mistyped.status, mistyped.out) == (3, "")
    assert "unknown job 'wrok'" in mistyped.err


async def test_a_redrive_from_the_start_forgets_the_cursor(world: Hands, cli: Cli) -> None:
    kept, forgotten = await _failed(world), await _failed(world)
    await world.sql("update task_executions set cursor = '{\"page\": 3}'")
    assert (await cli("executions", "redrive", kept)).status == 0
    assert (await cli("executions", "redrive", forgotten, "--from-start")).status == 0
    assert (await world.row(kept))["cursor"] is not None
    assert (await world.row(forgotten))["cursor"] is None


async def test_an_emptied_one_is_refused(world: Hands, cli: Cli) -> None:
    failed = await _failed(world)
    await world.change(failed, emptied_at="sql:now()")
    result = await cli("executions", "redrive", failed)
    assert result.status == 4
    assert "emptied by retention" in result.err


async def test_the_answers_of_cancel(world: Hands, cli: Cli) -> None:
    pending = (await world.dispatch()).execution_id
    running = await world.running()
    done = await world.running()
    await world.settle(done, DISCARDED)
    result = await cli("executions", "cancel", pending, running.id, done.id, "--json")
    assert result.status == 4
    assert [each["answer"] for each in result.objects] == [
        "cancelled",
        "requested",
        "already failed",
    ]
    again = await cli("executions", "cancel", pending, "--json")
    assert (again.status, again.object["answer"]) == (0, "already cancelled")
    attempt = (await cli("executions", "show", pending, "--json")).object["history"][0]
    assert attempt["move"] == "cancelled"
    assert attempt["by"].startswith("cli:")
