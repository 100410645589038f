"""`taskengine jobs` and `schedules`: rows, bounds, differences, fire times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from taskengine.model.class_job import ClassJob
from taskengine.model.definition import SETTINGS
from taskengine.store import definitions, misses, stores
from tests.cli.conftest import Cli
from tests.cli.sample_jobs import MODULE, Totals, pay
from tests.support.make import Hands, a_job


@pytest.fixture
async def ready(hands: Hands, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    await hands.know(pay, ClassJob(Totals))
    monkeypatch.setenv("TASKENGINE_JOBS__MODULES", MODULE)
    return cli


async def test_jobs_are_listed_and_shown(ready: Cli) -> None:
    found = (await ready("jobs", "list", "--json")).objects
    assert [each["name"] for each in found] == ["pay", "totals"]
    keys = ["name", *SETTINGS, "schedule_version", "fired_until", "error"]
    assert all(list(each) == keys for each in found)
    one = await ready("jobs", "show", "pay", "--json")
    assert one.object == found[0]
    assert "max_attempts        1" in (await ready("jobs", "show", "pay")).out
    assert (await ready("jobs", "show", "pya")).status == 3


async def test_settings_are_changed_for_the_next_claim(ready: Cli, hands: Hands) -> None:
    sent = await hands.dispatch("pay", payload='{"employee": 1}')
    result = await ready(
        *("jobs", "set", "pay", "timeout=600", 'config={"rate": 1.10}', "display_name=Pay all"),
        "--json",
    )
    assert result.status == 0
    assert '"config": {"rate":1.10}' in result.out
    claim = await hands.take(sent.execution_id)
    assert (claim.timeout, claim.config) == (600, '{"rate": 1.10}')


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("timeout=0", "timeout = 0: a whole number from 1 to 604800 s"),
        ("timeout=ten", "timeout = 'ten': a whole number from 1 to 604800 s"),
        ("max_attempts=1001", "max_attempts = 1001: a whole number from 0 to 1000"),
        ("retry_backoff=3601", "from 0 to 3600 s"),
        ("scope=all", "scope = 'all': one of global, per_store"),
        ("is_enabled=yes", "is_enabled = 'yes': true or false"),
        ("max_atempts=3", "did you mean 'max_attempts'?"),
        ("config=[]", "a JSON object"),
        ("schedule=0 0 30 2 *", "it would never fire"),
    ],
)
async def test_what_is_out_of_bounds_is_refused_whole(ready: Cli, change: str, words: str) -> None:
    before = (await ready("jobs", "show", "pay", "--json")).object
    result = await ready("jobs", "set", "pay", "max_orphanings=7", change)
    assert (result.status, result.out) == (2, "")
    assert words in result.err
    assert (await ready("jobs", "show", "pay", "--json")).object == before


async def test_only_a_job_that_has_a_verify_is_set_to_it(ready: Cli, hands: Hands) -> None:
    await hands.know(a_job("elsewhere"))
    mute = await ready("jobs", "set", "pay", "timeout=7", "on_interrupt=verify")
    assert (mute.status, mute.out) == (2, "")
    assert "job 'pay' has no verify: give it" in mute.err
    assert (await ready("jobs", "show", "pay", "--json")).object["timeout"] == 300
    foreign = await ready("jobs", "set", "elsewhere", "on_interrupt=verify")
    assert foreign.status == 2
    assert "only its code says" in foreign.err
    fine = await ready("jobs", "set", "totals", "on_interrupt=verify", "--json")
    assert fine.object["on_interrupt"] == "verify"


async def test_an_unknown_queue_or_job_is_not_found(ready: Cli) -> None:
    queue = await ready("jobs", "set", "pay", "queue=hgih")
    assert queue.status == 3
    assert "did you mean 'high'?" in queue.err
    assert (await ready("jobs", "set", "nope", "timeout=3")).status == 3
    assert (await ready("jobs", "disable", "pay", "nope")).status == 3
    assert (await ready("jobs", "show", "pay", "--json")).object["is_enabled"] is True


async def test_a_schedule_is_given_and_taken_away(ready: Cli) -> None:
    given = await ready("jobs", "set", "pay", "schedule=@daily", "time_zone=UTC", "--json")
    assert given.object["schedule"] == "@daily"
    taken = await ready("jobs", "set", "pay", "schedule=", "--json")
    assert taken.object["schedule"] is None


async def test_disabled_and_enabled_again(ready: Cli) -> None:
    off = await ready("jobs", "disable", "pay", "totals", "--json")
    assert [each["is_enabled"] for each in off.objects] == [False, False]
    on = await ready("jobs", "enable", "pay", "--json")
    assert on.object["is_enabled"] is True


async def test_the_diff_tells_rows_from_classes(ready: Cli, hands: Hands) -> None:
    await hands.know(a_job("abandoned"))
    await ready("jobs", "set", "pay", "timeout=600")
    found = (await ready("jobs", "diff", "--json")).objects
    assert found == [
        {
            "job": "pay",
            "difference": "changed",
            "setting": "timeout",
            "class": 300,
            "row": 600,
        },
        {"job": "taskengine.notify-failure", "difference": "missing"},
        {"job": "abandoned", "difference": "foreign"},
    ]
    table = await ready("jobs", "diff")
    assert table.out.splitlines()[1].split() == ["pay", "timeout", "300", "600"]
    assert "abandoned: has a row, but no class" in table.err


# ---- schedules -----------------------------------------------------------------------------------


async def test_c104_a_broken_schedule_is_listed_with_its_error(ready: Cli, hands: Hands) -> None:
    async with hands.parts.store.connection() as c:
        await stores.add(c, "0123", "First", "Europe/Berlin", None)
        await c.execute("update task_job_definitions set schedule = 'x y' where name = 'pay'")
    found = {each["job"]: each for each in (await ready("schedules", "list", "--json")).objects}
    assert "x y" in found["pay"]["error"]
    assert found["pay"]["next_fire"] is None
    assert found["totals"]["error"] is None
    next_fire = datetime.fromisoformat(found["totals"]["next_fire"])
    assert next_fire > datetime.now(UTC)
    assert "x y" in (await ready("schedules", "list")).out
    broken = await ready("schedules", "next", "pay")
    assert (broken.status, broken.out) == (1, "")
    assert "'pay' does not fire" in broken.err


async def test_missed_fire_times_are_listed_with_their_reason(ready: Cli, hands: Hands) -> None:
    assert (await ready("schedules", "missed")).err == "taskengine: nothing was missed\n"
    at = datetime(2026, 11, 2, 2, tzinfo=UTC)
    async with hands.parts.store.connection() as c:
        await misses.record(c, "totals", [misses.NewMiss("0123", at, "too late", None, None)])
    (told,) = (await ready("schedules", "missed", "totals", "--json")).objects
    assert (told["job"], told["store"], told["reason"]) == ("totals", "0123", "too late")
    assert told["fire_time"] == "2026-11-02T02:00:00Z"
    assert (await ready("schedules", "missed", "pay", "--json")).objects == []
    assert "too late" in (await ready("schedules", "missed")).out


async def test_the_next_fires_of_each_zone_in_the_order_of_time(ready: Cli, hands: Hands) -> None:
    async with hands.parts.store.connection() as c:
        await stores.add(c, "1", "East", "Asia/Tokyo", None)
        await stores.add(c, "2", "West", "America/New_York", None)
        queues = hands.parts.config.engine.queues
        await definitions.set_(c, "pay", {"schedule": "30 * * * *"}, queues)
    one = (await ready("schedules", "next", "totals", "-n", 4, "--json")).objects
    assert all(list(e) == ["job", "fire_time", "zone", "local", "stores"] for e in one)
    assert {(each["zone"], *each["stores"]) for each in one} == {
        ("Asia/Tokyo", "1"),
        ("America/New_York", "2"),
    }
    assert all(each["local"].endswith("02:00:00") for each in one)
    assert one == sorted(one, key=lambda each: str(each["fire_time"]))
    both = (await ready("schedules", "next", "-n", 30, "--json")).objects
    assert {each["job"] for each in both} == {"pay", "totals"}
    assert len(both) == 30
    assert (await ready("schedules", "next", "nope")).status == 3
    await ready("jobs", "set", "pay", "schedule=")
    without = await ready("schedules", "next", "pay")
    assert (without.status, without.err) == (3, "taskengine: job 'pay' has no schedule\n")
    await ready("jobs", "disable", "totals")
    disabled = await ready("schedules", "next", "totals")
    assert (disabled.status, disabled.out) == (0, "")
    assert "totals is disabled" in disabled.err
