"""`taskengine webhooks`: listed, and dispatched again by an operator, un-gated."""

from __future__ import annotations

import re
from typing import Any

import pytest

from taskengine.lifecycle.parts import Parts
from taskengine.store import webhooks
from taskengine.store.webhooks import NewEvent
from tests.cli.conftest import Cli
from tests.support.webhooks import register

_EVENT = [
    *("id", "source", "event_id", "type", "status", "size", "received_at", "occurred_at"),
    *("touched_at", "recoveries", "processed_at", "error"),
]
_REPLAY = [
    *("id", "source", "type", "received_at", "answer", "execution_id", "delivered", "problem"),
]


@pytest.fixture
def configured(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """One source; its events go to a queue that is not their job's."""
    for key, value in (
        *(("SCHEME", "everee"), ("KEYS", "whsk_x"), ("JOB", "payroll-event"), ("QUEUE", "payroll")),
    ):
        monkeypatch.setenv(f"TASKENGINE_WEBHOOKS__SOURCES__EVEREE__{key}", value)
    return cli


async def _event(parts: Parts, name: str, **columns: Any) -> int:
    new = NewEvent("everee", name, "paid", "received", b"{}", b"x", "{}", None, None)
    async with parts.store.connection() as c:
        event_id = await webhooks.insert(c, new._replace(**columns))
    assert event_id is not None
    return event_id


async def _rows(parts: Parts) -> list[Any]:
    async with parts.store.connection() as c:
        return await c.fetch("select * from task_executions order by id")


async def test_events_are_listed_the_newest_first(parts: Parts, cli: Cli) -> None:
    first = await _event(parts, "a")
    second = await _event(parts, "b\x1b[2J", status="invalid", error="no id")
    listed = await cli("webhooks", "list", "--json")
    assert [each["id"] for each in listed.objects] == [second, first]
    assert all(list(each) == _EVENT for each in listed.objects)
    assert "\x1b" not in (await cli("webhooks", "list")).out
    for args, ids in (
        (("--status", "invalid"), [second]),
        (("--failed",), [second]),
        (("--unprocessed",), [second, first]),
        (("--processed",), []),
        (("--before", second), [first]),
        (("--source", "x"), []),
    ):
        found = (await cli("webhooks", "list", "--json", *args)).objects
        assert [each["id"] for each in found] == ids


async def test_what_was_not_processed_is_dispatched_again(parts: Parts, configured: Cli) -> None:
    await register(parts)
    fresh, worn = await _event(parts, "a"), await _event(parts, "b")
    async with parts.store.connection() as c:
        await webhooks.fail(c, [worn], ["given up"])
        done = await _event(parts, "c")
        await c.execute("update webhook_events set processed_at = now() where id = $1", done)
    dry = await configured("webhooks", "reprocess", "--dry-run", "--json")
    assert [each["answer"] for each in dry.objects] == ["would be dispatched"] * 2
    assert await _rows(parts) == []
    result = await configured("webhooks", "reprocess", "--json")
    assert result.status == 0
    assert all(list(each) == _REPLAY for each in result.objects)
    assert [each["id"] for each in result.objects] == [fresh, worn]
    rows = await _rows(parts)
    assert [row["id"] for row in rows] == [each["execution_id"] for each in result.objects]
    assert [row["subject"] for row in rows] == [f"webhook:{fresh}", f"webhook:{worn}"]
    assert {(row["job"], row["queue"]) for row in rows} == {("payroll-event", "payroll")}
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    for row, event in zip(rows, (fresh, worn), strict=True):
        assert re.fullmatch(
            rf"webhook-manual:{event}:{stamp}:[0-9a-f]{{8}}", row["idempotency_key"]
        )


async def test_a_named_event_is_dispatched_whatever_its_state(
    parts: Parts, configured: Cli
) -> None:
    await register(parts)
    event = await _event(parts, "a")
    async with parts.store.connection() as c:
        await c.execute("update webhook_events set processed_at = now(), recoveries = 9")
    for _ in range(2):  # nothing stands in the way of the second time
        result = await configured("webhooks", "reprocess", "--id", event, "--json")
        assert (result.status, result.object["answer"]) == (0, "dispatched")
    assert len(await _rows(parts)) == 2


async def test_the_limit_takes_the_oldest(parts: Parts, configured: Cli) -> None:
    await register(parts)
    ids = [await _event(parts, name) for name in "abc"]
    found = (await configured("webhooks", "reprocess", "--limit", 2, "--json")).objects
    assert [each["id"] for each in found] == ids[:2]


async def test_one_that_cannot_be_dispatched_holds_up_none_and_is_not_touched(
    parts: Parts, configured: Cli
) -> None:
    await register(parts)
    foreign = await _event(parts, "a", source="github", error="x", status="invalid")
    good, gone = await _event(parts, "b"), await _event(parts, "c")
    async with parts.store.connection() as c:
        await c.execute("update webhook_events set body = null where id = $1", gone)
    ids = [arg for each in (foreign, good, gone, 10**9) for arg in ("--id", each)]
    result = await configured("webhooks", "reprocess", *ids, "--json")
    assert result.status == 4
    assert [each["answer"] for each in result.objects] == ["refused", "dispatched", "refused"]
    assert "sources.github is not configured" in result.objects[0]["problem"]
    assert "removed by retention" in result.objects[2]["problem"]
    assert "no webhook event 1000000000" in result.err
    async with parts.store.connection() as c:
        kept = await webhooks.list_(c, source="github")
    assert (kept[0].status, kept[0].error) == ("invalid", "x")


async def test_a_job_that_takes_nothing_refuses_with_the_reason(
    parts: Parts, configured: Cli
) -> None:
    event = await _event(parts, "a")
    result = await configured("webhooks", "reprocess", "--json")
    assert (result.status, result.object["answer"]) == (4, "refused")
    assert "job 'payroll-event' has no definition" in result.object["problem"]
    async with parts.store.connection() as c:
        (untouched,) = await webhooks.list_(c)
    assert (untouched.id, untouched.touched_at) == (event, untouched.received_at)
    missing = await configured("webhooks", "reprocess", "--id", 10**9)
    assert (missing.status, missing.out) == (3, "")
