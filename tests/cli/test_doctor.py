"""`taskengine doctor`: what people read, what machines read, the exit status; --fix."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskengine.cli.doctor_fixes import FIXES
from taskengine.config import Config
from taskengine.insight import divergence
from taskengine.insight.doctor.catalogue import CATALOGUE
from taskengine.lifecycle.parts import Parts
from tests.cli.conftest import Cli
from tests.cli.sample_jobs import MODULE, pay
from tests.insight.doctor_ward import Ward

_FINDING = ["code", "severity", "about", "text", "command", "fixable", "count", "ids"]


@pytest.fixture
async def ward(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ward]:
    """The server of the tests may lose what it commits: its own findings are left out."""
    monkeypatch.setattr(divergence, "WAIT", 0.1)
    monkeypatch.setattr("taskengine.insight.doctor.postgres.judge_promises", lambda _: [])
    ward = Ward(parts)
    await ward.join()
    await ward.well()
    await ward.beat_on()
    yield ward
    ward.die()


async def test_nothing_is_wrong(ward: Ward, cli: Cli) -> None:
    result = await cli("doctor")
    assert (result.status, result.out, result.err) == (0, "nothing is wrong\n", "")
    assert (await cli("doctor", "--json")).object == {
        "severity": None,
        "findings": [],
        "mended": [],
    }


async def test_each_finding_says_what_it_means_and_what_mends_it(ward: Ward, cli: Cli) -> None:
    lost = await ward.old()
    result = await cli("doctor")
    assert result.status == 2
    head, ids, command = result.out.splitlines()
    assert head.startswith(
        "error delivery.pending_without_message: 1 execution pending in 'default'"
    )
    assert (ids, command) == (f"  ids: {lost}", "  → taskengine doctor --fix")


async def test_the_object_has_a_stable_shape(ward: Ward, cli: Cli) -> None:
    lost = await ward.old()
    result = await cli("doctor", "--json")
    found = result.object
    assert (result.status, found["severity"], found["mended"]) == (2, "error", [])
    (each,) = found["findings"]
    assert list(each) == _FINDING
    assert (each["about"], each["fixable"], each["count"]) == ("default", True, 1)
    assert each["ids"] == [lost]


async def test_what_is_mended_is_said_and_found_no_more(ward: Ward, cli: Cli) -> None:
    lost = await ward.old()
    result = await cli("doctor", "--fix")
    assert result.status == 0
    assert result.out.splitlines() == [
        "mended delivery.pending_without_message: delivered 1 of default",
        "nothing is wrong",
    ]
    assert await ward.at(lost) == "queue"
    await ward.redis("ZADD", ward.parts.keys.queue("low"), 1, 999_999)
    found = (await cli("doctor", "--fix", "--json")).object
    (mended,) = found["mended"]
    assert list(mended) == ["code", "about", "did", "error"]
    assert (mended["code"], mended["error"]) == ("delivery.message_without_row", None)
    assert (found["severity"], found["findings"]) == (None, [])


async def test_the_exit_status_is_the_worst_severity(ward: Ward, cli: Cli) -> None:
    await cli("queues", "pause", "low", "--reason", "why")
    assert (await cli("doctor")).status == 0
    await ward.redis("ZADD", ward.parts.keys.queue("low"), 1, 999_999)
    assert (await cli("doctor")).status == 1
    await ward.sql("update task_job_definitions set error = 'bad \x1b[2J'")
    result = await cli("doctor")
    assert result.status == 2
    words = [line.split()[0] for line in result.out.splitlines() if not line.startswith(" ")]
    assert words == ["error", "warning", "note"]
    assert "\x1b[2J" not in result.out


async def test_with_all_daemons_down_and_redis_away(
    ward: Ward, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ward.sql("update task_workers set stopped_at = now()")
    monkeypatch.setenv("TASKENGINE_REDIS__URL", "redis://:hunter2@127.0.0.1:1/0")
    result = await cli("doctor", "--fix", "--json")
    codes = [each["code"] for each in result.object["findings"]]
    assert (result.status, codes) == (2, ["daemon.none", "redis.away"])
    assert "hunter2" not in result.out + result.err


async def test_postgres_away_is_5(
    cli: Cli, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKENGINE_POSTGRES__DSN", "postgresql://127.0.0.1:1/x")
    result = await cli("doctor", "--json")
    assert (result.status, result.out) == (5, "")


async def test_a_database_without_its_schema_is_a_finding(
    ward: Ward, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKENGINE_POSTGRES__SCHEMA", "nobody_made_it")
    found = (await cli("doctor", "--json")).object["findings"]
    assert [each["code"] for each in found] == ["migrations.pending"]
    assert found[0]["command"] == "taskengine migrate up"


async def test_code_that_cannot_be_loaded_is_a_finding_and_the_rest_is_looked_at(
    ward: Ward, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await ward.old()
    monkeypatch.setenv("TASKENGINE_JOBS__MODULES", "no.such.module")
    codes = [each["code"] for each in (await cli("doctor", "--json")).object["findings"]]
    assert codes == ["job.unloadable", "delivery.pending_without_message"]


async def test_rows_that_differ_from_the_code_are_notes(
    ward: Ward, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ward.know(pay)
    monkeypatch.setenv("TASKENGINE_JOBS__MODULES", MODULE)
    await cli("jobs", "set", "pay", "timeout=7")
    result = await cli("doctor", "--json")
    found = {each["about"]: each for each in result.object["findings"]}
    assert result.status == 0
    assert found["pay"]["code"] == "job.differs"
    assert found["totals"]["code"] == "job.unregistered"


def test_what_is_fixed_is_what_names_the_fix() -> None:
    named = {
        code for code, entry in CATALOGUE.items() if entry.command == "taskengine doctor --fix"
    }
    assert named == FIXES.keys() - {"redis.forgetful"}
