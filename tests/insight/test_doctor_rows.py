"""Planted: daemons that are gone and what they left, failures that nobody hears of."""

from __future__ import annotations

import pytest

from taskengine.insight.doctor.failures import NOTICES
from taskengine.jobs.notify_failure import NotifyFailure
from taskengine.store import webhooks
from taskengine.store.webhooks import NewEvent
from tests.insight.doctor_ward import Ward
from tests.support.make import FAILED, INTERRUPTED, ORPHANED, SUCCEEDED, a_job

LONG_AGO = "sql:now() - interval '1 h'"


def test_the_notices_job_is_the_built_in_one() -> None:
    assert NotifyFailure.name == NOTICES


# ---- daemons -------------------------------------------------------------------------------------


async def test_no_daemon_runs(ward: Ward) -> None:
    await ward.sql("update task_workers set stopped_at = now()")
    found = await ward.only("daemon.none")
    assert (found.severity, found.command) == ("error", "systemctl start taskengine")


async def test_a_daemon_that_is_silent(ward: Ward) -> None:
    await ward.sql(
        "insert into task_workers (name, host, pid, boot_id, version, queues, jobs, slots)"
        " values ('other/1', 'h', 1, 'b', 'v', '{high}', '{work}', 1)"
    )

    async def beat_on() -> None:
        await ward.sql(
            "update task_workers set last_beat_at = now() +"
            " case when name = 'other/1' then interval '-1 min' else interval '1 min' end"
        )

    ward.beat_on = beat_on  # type: ignore[method-assign]
    assert (await ward.only("daemon.silent")).about == "other/1"


async def _running_elsewhere(ward: Ward) -> int:
    """An execution of another worker's, which is dead."""
    (other,) = await ward.sql(
        "insert into task_workers (name, host, pid, boot_id, version, queues, jobs, slots)"
        " values ('other/1', 'h', 1, 'b', 'v', '{high}', '{work}', 1) returning id"
    )
    claim = await ward.running()
    await ward.change(claim.id, worker_id=other["id"])
    await ward.sql("update task_workers set dead_at = now() where id = $1", other["id"])
    return claim.id


async def test_an_execution_left_running_under_a_dead_worker(ward: Ward) -> None:
    execution_id = await _running_elsewhere(ward)
    found = await ward.only("worker.left_running")
    assert (found.ids, "other/1" in found.text) == ([execution_id], True)
    await ward.mended("worker.left_running")
    assert await ward.state(execution_id) == "pending"
    assert await ward.at(execution_id) == "queue"


async def test_an_execution_past_all_time(ward: Ward) -> None:
    claim = await ward.running()
    await ward.change(claim.id, deadline_at=LONG_AGO)
    await ward.mended("execution.past_deadline")
    assert await ward.history(claim.id) == ["orphaned"]


async def test_an_execution_past_all_time_that_its_worker_holds_is_left_to_it(ward: Ward) -> None:
    claim = await ward.running()
    await ward.change(claim.id, deadline_at=LONG_AGO)
    await ward.sql("update task_workers set held_over_time = $1", [claim.id])
    found = await ward.only("execution.past_deadline")
    assert found.ids == [claim.id]


async def test_a_lease_that_nobody_takes(ward: Ward) -> None:
    await ward.sql(
        "insert into task_leases values ('deliveries', 'gone/1', 1, now() - interval '5 min'),"
        " ('retention', 'gone/1', 1, now() - interval '5 min'),"
        " ('of another version', 'gone/1', 1, now() - interval '5 d')"
    )
    found = await ward.only("lease.stale")
    assert (found.about, "gone/1" in found.text) == ("deliveries", True)


# ---- failures ------------------------------------------------------------------------------------


async def test_a_stranded_webhook(ward: Ward) -> None:
    async with ward.parts.store.connection() as c:
        new = NewEvent("everee", "e1", None, "received", b"{}", b"x", "{}", None, None)
        await webhooks.insert(c, new)
    assert await ward.found() == []
    await ward.sql("update webhook_events set received_at = now() - interval '1 h'")
    assert (await ward.only("webhook.stranded")).about == "everee"


async def test_executions_left_to_a_person(ward: Ward) -> None:
    await ward.well(
        a_job("fragile", max_orphanings=1, max_interruptions=1, notify_on_failure=False),
        a_job("plain", max_attempts=1, notify_on_failure=False),
    )
    orphan, interrupted = await ward.running("fragile"), await ward.running("fragile")
    plain = await ward.running("plain")
    await ward.settle(orphan, ORPHANED)
    await ward.settle(interrupted, INTERRUPTED)
    await ward.settle(plain, FAILED)
    found = await ward.only("execution.quarantined")
    assert list(found.ids) == [orphan.id, interrupted.id]
    assert found.command == f"taskengine why {orphan.id}"  # not a redrive: that may pay twice
    await ward.sql("update task_executions set finished_at = now() - interval '25 h'")
    assert await ward.found() == []


async def _failed(ward: Ward) -> int:
    await ward.well(NotifyFailure(ward.parts))
    await ward.sql("update task_job_definitions set max_attempts = 1 where name = 'work'")
    claim = await ward.running()
    await ward.settle(claim, FAILED)
    return claim.id


async def test_failures_that_were_reported_to_nobody(ward: Ward) -> None:
    failed = await _failed(ward)
    await ward.sql("delete from task_executions where job = $1", NOTICES)
    assert await ward.found() == []  # its notice may be on its way
    await ward.change(failed, finished_at=LONG_AGO)
    found = await ward.only("notice.unreported")
    assert (found.about, found.count) == ("work", 1)
    assert '{"job": "work"}' in (found.command or "")
    await ward.change(failed, failure_reported_at="sql:now()")
    assert await ward.found() == []


@pytest.mark.parametrize("state", ["failed", "pending"])
async def test_notices_that_reached_nobody(ward: Ward, state: str) -> None:
    failed = await _failed(ward)
    await ward.change(failed, failure_reported_at="sql:now()")
    (notice,) = await ward.sql("select id from task_executions where job = $1", NOTICES)
    await ward.change(notice["id"], run_at=LONG_AGO, last_error="no relay")
    finish = "update task_executions set state = $2, finished_at = now() where id = $1"
    if state == "failed":
        await ward.sql(finish, notice["id"], "failed")
    found = {each.code: each for each in await ward.found()}
    assert "notice.undelivered" in found
    assert ": no relay" in found["notice.undelivered"].text
    await ward.sql(finish, notice["id"], "succeeded")
    await ward.redis("DEL", ward.parts.keys.queue("high"), ward.parts.keys.delayed("high"))
    assert await ward.found() == []


async def test_a_success_is_no_finding(ward: Ward) -> None:
    await ward.settle(await ward.running(), SUCCEEDED)
    assert await ward.found() == []
