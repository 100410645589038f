"""`taskengine dispatch`: what it answers, what the door refuses, and waiting for the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskengine.lifecycle.parts import Parts
from taskengine.store import stores
from tests.cli.conftest import Cli
from tests.cli.sample_jobs import MODULE, Totals, pay
from tests.support.make import Hands

_KEYS = ["execution_id", "created", "state", "delivered", "key", "store"]


@pytest.fixture
async def ready(hands: Hands, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A daemon has registered the sample jobs; the command line knows their module, too."""
    from taskengine.model.class_job import ClassJob

    await hands.know(pay, ClassJob(Totals))
    monkeypatch.setenv("TASKENGINE_JOBS__MODULES", MODULE)
    return cli


async def _payload(parts: Parts, execution_id: int) -> Any:
    async with parts.store.connection() as c:
        return await c.fetchval(
            "select payload::text from task_executions where id = $1", execution_id
        )


async def test_a_dispatch_answers_with_its_execution(ready: Cli, hands: Hands) -> None:
    result = await ready("dispatch", "pay", "-p", '{"employee": 7}', "--key", "k7", "--json")
    assert (result.status, result.err) == (0, "")
    answer = result.object
    assert list(answer) == _KEYS
    assert answer | {"execution_id": 0} == {
        "execution_id": 0,
        "created": True,
        "state": "pending",
        "delivered": True,
        "key": "k7",
        "store": None,
    }
    assert await hands.at(answer["execution_id"]) == "queue"
    again = await ready("dispatch", "pay", "-p", '{"employee": 7}', "--key", "k7", "--json")
    assert again.status == 0
    assert again.object == answer | {"created": False}


async def test_an_exclusive_key_is_taken_and_shown(ready: Cli) -> None:
    sent = await ready(
        "dispatch", "pay", "-p", '{"employee": 7}', "--exclusive-key", "employee:7", "--json"
    )
    shown = await ready("executions", "show", sent.object["execution_id"], "--json")
    assert shown.object["exclusive_key"] == "employee:7"
    refused = await ready("dispatch", "pay", "-p", '{"employee": 7}', "--exclusive-key", "x" * 256)
    assert refused.status != 0
    assert "exclusive_key" in refused.err


async def test_the_answer_is_a_table_without_json(ready: Cli) -> None:
    result = await ready("dispatch", "pay", "-p", '{"employee": 7}', "--key", "k7")
    title, row = result.out.splitlines()
    assert title.split() == ["execution", "store", "created", "state", "delivered", "key"]
    assert row.split()[2:] == ["yes", "pending", "yes", "k7"]


async def test_c90_digits_go_in_and_come_out_as_they_are(ready: Cli, parts: Parts) -> None:
    """A payload's numbers: in by option, file and stdin; out by `show`."""
    stored = '{"price": {"amount": 0.1, "price": 1.10, "big": 1%s}, "employee": 9007199254740993}'
    text = stored % ("0" * 30)
    Path("payload.json").write_text(text)
    for given, stdin in ((text, b""), ("@payload.json", b""), ("-", text.encode())):
        sent = (await ready("dispatch", "pay", "-p", given, "--json", stdin=stdin)).object
        execution_id = sent["execution_id"]
        kept = await _payload(parts, execution_id)
        for digits in ("9007199254740993", "1.10", "1" + "0" * 30, "0.1"):
            assert digits in kept
        shown = await ready("executions", "show", execution_id, "--json")
        assert f'"payload": {kept}' in shown.out
        assert kept in (await ready("executions", "show", execution_id)).out


async def test_a_time_to_come_is_delayed(ready: Cli, hands: Hands) -> None:
    for more in (("--delay", "15m"), ("--run-at", "2199-01-01T00:00:00+01:00")):
        sent = (await ready("dispatch", "pay", "-p", '{"employee": 1}', *more, "--json")).object
        assert await hands.at(sent["execution_id"]) == "delayed"


async def test_per_store_jobs_are_dispatched_for_one_or_for_all(ready: Cli, parts: Parts) -> None:
    nothing = await ready("dispatch", "totals", "--all-stores")
    assert (nothing.status, nothing.out) == (0, "")
    assert "no active store" in nothing.err
    async with parts.store.connection() as c:
        for number in ("0123", "124"):
            await stores.add(c, number, number, "UTC", None)
    sent = (await ready("dispatch", "totals", "--all-stores", "--key", "k", "--json")).objects
    assert [(each["store"], each["key"]) for each in sent] == [("0123", "k:0123"), ("124", "k:124")]
    one = await ready("dispatch", "totals", "--store", "124", "--key", "k", "--json")
    assert one.object == sent[1] | {"created": False}


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("pya",), 3, "unknown job 'pya', did you mean 'pay'?"),
        (("totals", "--store", "0124"), 3, "unknown store '0124'"),
        (("totals",), 2, "runs per store"),
        (("pay", "-p", '{"employee": 1}', "--store", "1"), 2, "takes no store"),
        (("pay", "-p", '{"employee": "x"}'), 2, "payload at $.employee"),
        (("pay", "-p", '{"employee": NaN}'), 2, "NaN is not JSON"),
        (("pay", "-p", '{"employee": 1}', "--key", "k" * 256), 2, "at most 255"),
    ],
)
async def test_the_door_refuses_with_a_reason(
    ready: Cli, args: tuple[str, ...], status: int, words: str
) -> None:
    result = await ready("dispatch", *args)
    assert (result.status, result.out) == (status, "")
    assert words in result.err
    assert len(result.err.splitlines()) == 1


async def test_a_disabled_job_is_refused(ready: Cli) -> None:
    assert (await ready("jobs", "disable", "pay")).status == 0
    result = await ready("dispatch", "pay", "-p", '{"employee": 1}')
    assert result.status == 4
    assert "taskengine jobs enable pay" in result.err


async def test_without_redis_it_is_committed_and_not_delivered(
    ready: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKENGINE_REDIS__URL", "redis://127.0.0.1:1/0")
    result = await ready("dispatch", "pay", "-p", '{"employee": 1}', "--json")
    assert result.status == 0
    assert (result.object["created"], result.object["delivered"]) == (True, False)


async def test_a_module_that_cannot_be_imported_is_the_configurations_fault(
    ready: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKENGINE_JOBS__MODULES", "no.such.module")
    result = await ready("dispatch", "pay")
    assert result.status == 78
    assert "'no.such.module', which cannot be imported" in result.err


@pytest.mark.parametrize(("employee", "status", "state"), [(1, 0, "succeeded"), (-1, 1, "failed")])
async def test_waiting_tells_how_it_ended(
    ready: Cli, hands: Hands, employee: int, status: int, state: str
) -> None:
    args = ("dispatch", "pay", "-p", f'{{"employee": {employee}}}', "--wait", 30, "--json")
    async with hands.working():
        result = await ready(*args)
    assert (result.status, result.object["state"]) == (status, state)
    assert ("failed: ValueError: no such employee" in result.err) is (state == "failed")


async def test_waiting_in_vain_is_a_temporary_failure(ready: Cli) -> None:
    result = await ready("dispatch", "pay", "-p", '{"employee": 1}', "--wait", "0.2", "--json")
    assert (result.status, result.object["state"]) == (75, "pending")
    assert "has not ended within 0.2 s" in result.err
