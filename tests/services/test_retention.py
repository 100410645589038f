"""The loop "retention": what is over goes, in small batches; anything not terminal is refused."""

from __future__ import annotations

from typing import Any

import pytest

from taskengine.services.retention import Retention
from tests.support.make import DISCARDED, SUCCEEDED, Hands, a_job

DAY = 86400


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job())


async def sweep(hands: Hands) -> dict[str, Any]:
    loop = Retention(hands.parts, hands.identity, hands.token)
    await loop.tick()
    return dict(loop.last_findings)


async def ended(hands: Hands, days: float, key: str | None = None, outcome: Any = SUCCEEDED) -> int:
    """An execution that ended so long ago; without a key of its caller's, the engine drew one."""
    claim = await hands.running(key=key)
    await hands.settle(claim, outcome)
    await hands.change(claim.id, finished_at=f"sql:now() - interval '{days} days'")
    return claim.id


async def there(hands: Hands) -> set[int]:
    return {
        row["id"] for row in await hands.sql("select id from task_executions where job = 'work'")
    }


async def test_retention_succeeded_ones_go_after_30_days(hands: Hands) -> None:
    await ended(hands, 30.1)
    young = await ended(hands, 29.9)
    found = await sweep(hands)
    assert await there(hands) == {young}
    assert found["succeeded"] == 1


async def test_retention_failed_and_cancelled_ones_stay_longer_180_days(hands: Hands) -> None:
    young = await ended(hands, 179.9, outcome=DISCARDED)
    await ended(hands, 180.1, outcome=DISCARDED)
    cancelled = await ended(hands, 31)
    await hands.change(cancelled, state="cancelled")
    await sweep(hands)
    assert await there(hands) == {young, cancelled}


async def test_retention_a_callers_key_is_emptied_and_kept_until_400_days(hands: Hands) -> None:
    old = await ended(hands, 31, key="paystub:7")
    await hands.change(old, payload='{"a": 1}', result='"r"', cursor="1", progress_message="m")
    await hands.sql(
        "insert into task_execution_logs (execution_id, attempt, at, level, message)"
        " values ($1, 1, now(), 'info', 'a line')",
        old,
    )
    await sweep(hands)
    row = await hands.row(old)
    emptied = ("payload", "result", "cursor", "progress_message", "result_error")
    assert [row[name] for name in emptied] == [None] * len(emptied)
    assert row["emptied_at"] is not None
    assert await hands.sql("select from task_execution_logs") == []
    again = await hands.dispatch(key="paystub:7")
    assert (again.created, again.execution_id) == (False, old)  # the late repeat does nothing

    await hands.change(old, finished_at="sql:now() - interval '399 days'")
    await sweep(hands)
    assert await there(hands) == {old}
    await hands.change(old, finished_at="sql:now() - interval '401 days'")
    await sweep(hands)
    assert await there(hands) == set()


async def test_retention_the_history_goes_with_its_execution(hands: Hands) -> None:
    await ended(hands, 200, outcome=DISCARDED)
    assert await hands.sql("select from task_attempts") != []
    await sweep(hands)
    assert await hands.sql("select from task_attempts") == []


async def test_retention_refuses_anything_not_terminal_however_old(hands: Hands) -> None:
    pending = (await hands.dispatch()).execution_id
    running = (await hands.running()).id
    await hands.sql(
        "update task_executions set created_at = now() - interval '10 years',"
        " run_at = now() - interval '10 years', claimed_at = now() - interval '10 years'"
    )
    await sweep(hands)
    assert await there(hands) == {pending, running}


async def test_retention_webhook_bodies_go_after_90_days_where_nothing_waits_for_them(
    hands: Hands,
) -> None:
    await hands.sql(
        "insert into webhook_events (source, event_id, status, body, body_sha256, headers,"
        " received_at, processed_at, error) select 'everee', n::text, case when n = 4 then 'ignored'"
        " else 'received' end, 'body', 'sha', '{\"a\": 1}', now() - case when n = 1 then 89 else 91"
        " end * interval '1 day', case when n < 3 then now() end, case when n = 3 then 'broken' end"
        " from generate_series(1, 5) n"
    )
    found = await sweep(hands)
    rows = await hands.sql("select event_id, body, headers from webhook_events order by event_id")
    assert {r["event_id"]: r["body"] is not None for r in rows} == {
        "1": True,  # young
        "2": False,  # processed
        "3": False,  # marked with its error
        "4": False,  # ignored
        "5": True,  # unprocessed: still to be recovered
    }
    assert [r["headers"] for r in rows if r["body"] is None] == ["{}"] * 3
    assert found["events"] == 3


async def test_retention_rows_that_somebody_has_locked_are_skipped(hands: Hands) -> None:
    locked = await ended(hands, 31)
    await ended(hands, 31)
    async with hands.parts.store.transaction() as c:
        await c.execute("select from task_executions where id = $1 for update", locked)
        await sweep(hands)
    assert await there(hands) == {locked}


async def test_retention_goes_on_until_nothing_is_old_enough(hands: Hands) -> None:
    await hands.sql(
        "insert into task_executions (job, queue, idempotency_key, state, finished_at, key_is_drawn)"
        " select 'work', 'default', 'k' || n, 'succeeded', now() - interval '31 days', n % 2 = 0"
        " from generate_series(1, 4500) n"
    )
    found = await sweep(hands)
    (left,) = await hands.sql("select count(*), count(emptied_at) as emptied from task_executions")
    assert tuple(left.values()) == (2250, 2250)
    assert found["succeeded"] == 4500


async def test_retention_workers_long_gone_are_forgotten(hands: Hands) -> None:
    await hands.sql(
        "insert into task_workers (name, host, pid, boot_id, version, queues, jobs, slots, stopped_at)"
        " select 'old', 'h', 1, 'b', 'v', '{}', '{}', 1, now() - n * interval '1 day'"
        " from generate_series(6, 10, 2) n"
    )
    await sweep(hands)
    (left,) = await hands.sql("select count(*) from task_workers where name = 'old'")
    assert left["count"] == 1  # the one of 6 days


async def test_retention_works_only_under_the_lease(hands: Hands) -> None:
    await sweep(Hands(hands.parts, "other"))
    old = await ended(hands, 31)
    assert await sweep(hands) == {"lease": "elsewhere"}
    assert await there(hands) == {old}
