"""Cases of what operators see, and of what must not be seen."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog

from taskengine.cli import execution_views
from taskengine.cli.execution_views import Whole
from taskengine.client import TaskEngine
from taskengine.insight.schedules import schedules
from taskengine.store import logs, lookup
from taskengine.telemetry.events import emit, subscribe
from taskengine.telemetry.logs import LogEvents, set_up
from taskengine.telemetry.redact import HIDDEN, clean
from tests.cli.conftest import Cli
from tests.support.make import Hands, Told, a_job
from tests.support.scheduling import World, at, scheduled

_EVIL = "<img src=x onerror=alert(1)>\x1b[31m\r\nERROR forged line\u202e javascript:alert(1)"


async def test_c104_a_broken_schedule_is_shown_with_its_error_and_the_others_fire(
    hands: Hands, cli: Cli
) -> None:
    world = World(hands.parts)
    await world.add(*(scheduled(f"job-{n}") for n in range(20)))
    await world.sql("update task_job_definitions set schedule = 'no cron' where name = 'job-7'")
    await world.turn(at(12, 1))
    assert len(await world.keys()) == 19
    shown = {each.job: each.error for each in await schedules(hands.parts)}
    assert "no cron" in str(shown.pop("job-7"))
    assert set(shown.values()) == {None}
    assert world.told("schedule.broken")
    world.close()
    listed = (await cli("schedules", "list", "--json")).objects
    assert "no cron" in {each["job"]: each["error"] for each in listed}["job-7"]
    assert (await cli("schedules", "next", "job-7")).status != 0
    assert (await cli("doctor")).status != 0


async def test_c104_what_is_set_by_hand_is_refused_whole(hands: Hands, cli: Cli) -> None:
    """(Files of definitions come later.) One bad setting among three: none is applied."""
    await hands.know(a_job())
    before = await hands.sql("select * from task_job_definitions")
    told = await cli("jobs", "set", "work", "timeout=7", "schedule=0 0 31 2 *", "queue=low")
    assert told.status != 0
    assert "schedule" in told.err
    assert await hands.sql("select * from task_job_definitions") == before


@pytest.mark.parametrize(
    "secret",
    [
        {"password": "hunter2"},
        {"deep": [{"api_token": "hunter2"}]},
        {"x-everee-webhook-signature": "hunter2"},
    ],
    ids=["password", "token", "signature"],
)
def test_c105_values_under_secret_names_are_hidden(secret: Any) -> None:
    assert "hunter2" not in json.dumps(clean(secret))
    assert HIDDEN in json.dumps(clean(secret))


async def test_c105_a_secret_that_a_body_gives_away_is_in_no_row_log_page_or_event(
    hands: Hands, cli: Cli, told: Told
) -> None:
    """A DSN in an exception, an argument in a log line; locals are never in a traceback."""

    async def body(ctx: Any) -> None:
        local = "hunter2-" + "local"
        ctx.log("info", "with token=hunter2", password="hunter2", deep=[{"api_key": "hunter2"}])
        raise ConnectionError("postgresql://app:hunter2@db/x refused", len(local))

    await hands.know(a_job(body=body, max_attempts=1))
    stream = io.StringIO()
    with the_log(stream):
        row = await hands.run()
    kept: list[object] = [row, *await hands.sql("select error from task_attempts")]
    kept += await hands.sql("select message, fields from task_execution_logs")
    for more in ((), ("--json",)):
        kept.append(await cli("executions", "show", row["id"], *more))
    seen = repr(kept) + stream.getvalue() + repr(told)
    assert "hunter2" not in seen
    assert "postgresql://app:***@db/x refused" in seen
    assert "with token=***" in seen
    (attempt,) = await hands.sql("select traceback from task_attempts")
    assert "app:hunter2" not in attempt["traceback"]


async def test_c105_the_configuration_is_shown_without_its_secrets(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKENGINE_POSTGRES__DSN", "postgresql://app:hunter2@db/x")
    monkeypatch.setenv("TASKENGINE_REDIS__URL", "redis://:hunter2@cache/0")
    for args in (("config", "show"), ("config", "show", "--json"), ("run", "--help")):
        result = await cli(*args)
        assert result.status == 0
        assert "hunter2" not in result.out + result.err


@contextmanager
def the_log(stream: io.StringIO) -> Iterator[None]:
    """The daemon's log, as JSON."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    set_up("debug", "json", stream)
    listener = LogEvents()
    end = subscribe(listener, listener.wants)
    try:
        yield
    finally:
        end()
        root.handlers = handlers
        root.setLevel(level)
        logging.captureWarnings(False)
        structlog.reset_defaults()


async def test_c106_markup_and_terminal_codes_are_shown_as_text(
    hands: Hands, capsys: pytest.CaptureFixture[str]
) -> None:
    async def body(ctx: Any) -> None:
        ctx.log("info", _EVIL)
        raise ValueError(_EVIL)

    await hands.know(a_job(body=body, max_attempts=1))
    row = await hands.run()
    async with hands.parts.store.connection() as c:
        whole = Whole(
            await TaskEngine.of(hands.parts).get(row["id"]),
            await lookup.attempts(c, row["id"]),
            await logs.of(c, row["id"], 100),
        )
    execution_views.print_whole(whole, as_json=False)
    text = capsys.readouterr().out
    assert "<img src=x" in text
    assert not {"\x1b", "\r", "\u202e"} & set(text)
    assert not [line for line in text.splitlines() if line.startswith("ERROR forged")]
    execution_views.print_whole(whole, as_json=True)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["log"][0]["message"]


def test_c106_a_log_line_of_many_lines_is_one_entry() -> None:
    stream = io.StringIO()
    with the_log(stream):
        logging.getLogger("job").warning('%s\n{"level": "error", "message": "forged"}', _EVIL)
        emit("execution.failed", task=_EVIL, reason=_EVIL)
    lines = stream.getvalue().splitlines()
    assert [json.loads(line)["level"] for line in lines] == ["warning", "error"]
    assert "\x1b" not in stream.getvalue()
