"""Cases of what operators see, and of what must not be seen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskengine.cli import execution_views
from taskengine.cli.execution_views import Whole
from taskengine.cli.words import clean as on_terminal
from taskengine.client import TaskEngine
from taskengine.insight.schedules import schedules
from taskengine.store import executions, logs
from taskengine.telemetry.redact import HIDDEN, clean, clean_text
from tests.support.make import Hands, Told, a_job
from tests.support.scheduling import World, at, scheduled

_EVIL = "<img src=x onerror=alert(1)>\x1b[31m\r\nERROR forged line\u202e javascript:alert(1)"


async def test_c104_a_broken_schedule_is_shown_with_its_error_and_the_others_fire(
    hands: Hands,
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


async def test_c105_a_secret_in_an_exception_reaches_no_row_log_or_event(
    hands: Hands, told: Told
) -> None:
    """A DSN in the message; locals are never in a traceback. Arguments are in no event at all."""

    async def body(ctx: Any) -> None:
        password = "local-hunter2"
        raise ConnectionError(f"postgresql://app:hunter2@db/x refused {len(password)}")

    await hands.know(a_job(body=body, max_attempts=1))
    row = await hands.run()
    (attempt,) = await hands.sql("select traceback from task_attempts")
    assert "local-hunter2" not in str(attempt["traceback"])
    shown = execution_views.shape(await TaskEngine.of(hands.parts).get(row["id"]))
    assert "hunter2" not in str(shown["last_error"])
    assert "hunter2" not in clean_text(str(row["last_error"]))
    assert not [fields for _, fields in told if "payload" in fields]


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
            await executions.attempts(c, row["id"]),
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


def test_c106_a_line_of_text_stays_one_line() -> None:
    assert "\n" not in on_terminal(_EVIL)
