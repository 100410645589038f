"""The table "The execution" of the specification, one test or more for each of its moves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskengine.errors import (
    ExecutionEmptied,
    ExecutionNotFound,
    InvalidMove,
    JobDisabled,
    KeyTooLong,
    PayloadError,
    StoreRequired,
    UnknownJob,
    UnknownQueue,
    UnknownStore,
)
from taskengine.jobs.notify_failure import NotifyFailure
from taskengine.lifecycle.dispatch import Request
from taskengine.lifecycle.operate import cancel, redrive
from taskengine.model.execution import Claim
from taskengine.model.outcome import Outcome
from taskengine.services.orphans import DeadWorkers
from taskengine.store import queues, workers
from tests.support.make import (
    DISCARDED,
    FAILED,
    INTERRUPTED,
    ORPHANED,
    RELEASED,
    SNOOZED,
    SUCCEEDED,
    Hands,
    Told,
    a_job,
)
from tests.support.until import until

NOTICE = "taskengine.notify-failure"


@pytest.fixture(autouse=True)
async def _work(hands: Hands) -> None:
    await hands.know(a_job("work", retry_backoff=60, max_attempts=3))


async def wait_of(hands: Hands, execution_id: int) -> float:
    """Seconds from its last history line to its `run_at`."""
    row = await hands.sql(
        "select extract(epoch from e.run_at - a.ended_at)::float8 as wait from task_executions e"
        " join task_attempts a on a.execution_id = e.id where e.id = $1 order by a.id desc limit 1",
        execution_id,
    )
    return float(row[0]["wait"])


# ---- dispatch ------------------------------------------------------------------------------------


async def test_dispatch_makes_a_pending_row_of_attempt_1_that_waits_in_the_jobs_queue(
    hands: Hands,
) -> None:
    sent = await hands.dispatch(key="k")
    row = await hands.row(sent.execution_id)
    assert (row["state"], row["attempt"], row["queue"]) == ("pending", 1, "default")
    assert (sent.created, sent.delivered, sent.state, sent.key) == (True, True, "pending", "k")
    assert await hands.at(sent.execution_id) == "queue"


async def test_dispatch_run_at_says_from_when(hands: Hands) -> None:
    moment = datetime(2126, 1, 1, tzinfo=UTC)
    later = await hands.dispatch(run_at=moment)
    delayed = await hands.dispatch(delay=3600.0)
    assert (await hands.row(later.execution_id))["run_at"] == moment
    row = await hands.row(delayed.execution_id)
    assert row["run_at"] - row["created_at"] == timedelta(hours=1)
    assert await hands.at(later.execution_id) == await hands.at(delayed.execution_id) == "delayed"


async def test_dispatch_fixes_the_queue_in_the_row(hands: Hands) -> None:
    before = await hands.dispatch()
    await hands.sql("update task_job_definitions set queue = 'high' where name = 'work'")
    after = await hands.dispatch()
    assert (await hands.row(before.execution_id))["queue"] == "default"
    assert (await hands.row(after.execution_id))["queue"] == "high"


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        pytest.param(Request("wrok"), UnknownJob, id="unknown job"),
        pytest.param(Request("work", queue="hihg"), UnknownQueue, id="unknown queue"),
        pytest.param(Request("off"), JobDisabled, id="disabled job"),
        pytest.param(Request("work", key="ä" * 128), KeyTooLong, id="key over 255 bytes"),
        pytest.param(Request("small", payload='{"a": 12345}'), PayloadError, id="too large"),
        pytest.param(Request("each"), StoreRequired, id="no store"),
        pytest.param(Request("each", type_num="9"), UnknownStore, id="unknown store"),
    ],
)
async def test_dispatch_refused_at_the_door_leaves_nothing(
    hands: Hands, request_: Request, error: type[Exception]
) -> None:
    await hands.know(
        a_job("off", is_enabled=False),
        a_job("small", max_payload_bytes=10),
        a_job("each", scope="per_store"),
    )
    with pytest.raises(error):
        await hands.dispatcher.dispatch(request_)
    assert await hands.sql("select from task_executions") == []


# ---- claim ---------------------------------------------------------------------------------------


async def test_claim_sets_worker_token_times_and_counts_the_fence(hands: Hands) -> None:
    sent = await hands.dispatch()
    (claim,) = await hands.claim(sent.execution_id, token=77)
    row = await hands.row(sent.execution_id)
    assert (row["state"], row["worker_id"], row["claim_token"]) == ("running", hands.worker_id, 77)
    assert row["deadline_at"] - row["claimed_at"] == timedelta(seconds=claim.timeout)
    assert row["fence"] == claim.fence == 1


async def test_claim_with_the_same_token_gives_the_same_rows_again(hands: Hands) -> None:
    ids = [(await hands.dispatch()).execution_id for _ in range(3)]
    first = await hands.claim(*ids, token=5)
    again = await hands.claim(*ids, token=5)
    assert [c.id for c in again] == [c.id for c in first] == ids


async def test_claim_takes_nothing_that_runs_under_another_token(hands: Hands) -> None:
    claim = await hands.running()
    assert await hands.claim(claim.id) == []
    assert (await hands.row(claim.id))["claim_token"] == claim.token


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
async def test_claim_takes_nothing_that_is_terminal(hands: Hands, state: str) -> None:
    sent = await hands.dispatch()
    await hands.sql(
        "update task_executions set state = $2, finished_at = now() where id = $1",
        sent.execution_id,
        state,
    )
    assert await hands.claim(sent.execution_id) == []


async def test_claim_takes_only_what_is_due(hands: Hands) -> None:
    sent = await hands.dispatch(delay=60.0)
    assert await hands.claim(sent.execution_id) == []
    await hands.make_due(sent.execution_id)
    assert len(await hands.claim(sent.execution_id)) == 1


async def test_claim_takes_only_jobs_known_to_this_worker(hands: Hands) -> None:
    sent = await hands.dispatch()
    assert await hands.claim(sent.execution_id, jobs=["other"]) == []
    assert len(await hands.claim(sent.execution_id, jobs=["other", "work"])) == 1


async def test_claim_takes_nothing_of_a_paused_queue(hands: Hands) -> None:
    sent = await hands.dispatch()
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "default", "somebody", "a reason")
        assert await hands.claim(sent.execution_id) == []
        await queues.resume(c, "default")
    assert len(await hands.claim(sent.execution_id)) == 1


async def test_claim_takes_what_a_disabled_job_has_pending(hands: Hands) -> None:
    sent = await hands.dispatch()
    await hands.sql("update task_job_definitions set is_enabled = false")
    assert len(await hands.claim(sent.execution_id)) == 1


async def test_claim_is_refused_to_a_worker_that_is_dead_or_unknown(hands: Hands) -> None:
    sent = await hands.dispatch()
    await hands.sql("update task_workers set dead_at = now() where id = $1", hands.worker_id)
    assert await hands.claim(sent.execution_id) == []
    assert await hands.claim(sent.execution_id, worker=10**9) == []


async def test_claim_locks_the_workers_own_row_so_that_a_burial_is_never_overtaken(
    hands: Hands,
) -> None:
    """A claim that meets a burial under way waits for it, and then sees that it is dead."""
    sent = await hands.dispatch()
    async with hands.parts.store.transaction() as burial:
        await workers.lock(burial, hands.worker_id)
        claiming = asyncio.create_task(hands.claim(sent.execution_id))

        async def claim_waits() -> bool:
            rows = await hands.sql(
                "select from pg_stat_activity where wait_event_type = 'Lock'"
                " and pg_backend_pid() <> pid and query like '%key share%' and query like '%fence%'"
            )
            return bool(rows)

        await until(claim_waits)
        await workers.declare_dead(burial, hands.worker_id, None)
    assert await claiming == []
    assert await hands.state(sent.execution_id) == "pending"


# ---- succeed, retry, exhaust, discard, snooze, release --------------------------------------------


async def test_succeed_stores_the_result_and_ends(hands: Hands) -> None:
    claim = await hands.running()
    await hands.settle(claim, SUCCEEDED._replace(result='{"n": 1}'))
    row = await hands.row(claim.id)
    assert (row["state"], row["result"], row["claim_token"]) == ("succeeded", '{"n": 1}', None)
    assert row["finished_at"] >= row["claimed_at"]
    assert await hands.history(claim.id) == []


async def test_retry_goes_back_to_pending_with_the_next_attempt_and_its_error_in_the_history(
    hands: Hands,
) -> None:
    claim = await hands.running()
    (moved,) = await hands.settle(claim, FAILED)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["claim_token"]) == ("pending", 2, None)
    assert 60 <= await wait_of(hands, claim.id) <= 66
    (line,) = await hands.sql("select * from task_attempts where execution_id = $1", claim.id)
    assert (line["attempt"], line["move"], line["error"]) == (1, "retried", FAILED.error)
    assert (line["worker_id"], line["by"]) == (hands.worker_id, "hands")
    await hands.deliver([moved])
    assert await hands.at(claim.id) == "delayed"


async def test_retry_happens_while_attempt_is_strictly_less_than_max_attempts(hands: Hands) -> None:
    second = await hands.running(attempt=2)
    third = await hands.running(attempt=3)
    await hands.settle(second, FAILED)
    await hands.settle(third, FAILED)
    assert [await hands.state(c.id) for c in (second, third)] == ["pending", "failed"]


async def test_retry_is_never_done_where_max_attempts_is_0(hands: Hands) -> None:
    await hands.sql("update task_job_definitions set max_attempts = 0")
    claim = await hands.running()
    await hands.settle(claim, FAILED)
    assert await hands.state(claim.id) == "failed"


async def test_retry_takes_the_delay_that_the_job_asked_for(hands: Hands) -> None:
    claim = await hands.running()
    await hands.settle(claim, FAILED._replace(delay=7.0))
    assert 6.9 < await wait_of(hands, claim.id) <= 7.0


async def test_exhaust_inserts_the_notice_by_the_same_statement(hands: Hands) -> None:
    claims = [await hands.running(attempt=3) for _ in range(2)]
    moved = [m for claim in claims for m in await hands.settle(claim, FAILED)]
    assert [(m.job, m.state) for m in moved] == [
        ("work", "failed"),
        (NOTICE, "pending"),
        ("work", "failed"),
    ]
    (notice,) = await hands.sql("select * from task_executions where job = $1", NOTICE)
    window = notice["run_at"]
    assert notice["idempotency_key"] == f"notice:work:{window:%Y-%m-%dT%H:%M:%SZ}"
    assert window.second == 0
    assert window > (await hands.row(claims[0].id))["finished_at"]
    assert (notice["queue"], notice["payload"]) == ("high", '{"job": "work"}')


async def test_exhaust_the_notices_body_reports_every_failure_once(
    hands: Hands, told: Told
) -> None:
    await hands.know(NotifyFailure(hands.parts))
    failures = [await hands.running(attempt=3) for _ in range(2)]
    for claim in failures:
        await hands.settle(claim, FAILED)
    (notice,) = await hands.sql("select id from task_executions where job = $1", NOTICE)
    await hands.make_due(notice["id"])
    claim = await hands.take_again(notice["id"])
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: flight.ended)
    reported = [e["execution_id"] for e in told.of("notice.failure")]
    assert sorted(reported) == [c.id for c in failures]
    assert [(e["task"], e["count"]) for e in told.of("notices.sent")] == [("work", 2)]
    assert told.of("notices.failed") == []
    assert (await hands.row(notice["id"]))["result"] == '{"reported": 2}'
    assert not await hands.sql(
        "select from task_executions where state = 'failed' and failure_reported_at is null"
    )


async def test_exhaust_a_notice_that_cannot_be_sent_is_counted_and_its_failures_stay_unreported(
    hands: Hands, told: Told
) -> None:
    await hands.know(NotifyFailure(hands.parts))
    await hands.settle(await hands.running(attempt=3), FAILED)
    (notice,) = await hands.sql("select id from task_executions where job = $1", NOTICE)
    await hands.make_due(notice["id"])
    claim = await hands.take_again(notice["id"])
    await hands.sql(
        "alter table task_executions add constraint broken check (failure_reported_at is null)"
    )
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: flight.ended)
    assert [e["count"] for e in told.of("notices.failed")] == [1]
    assert told.of("notices.sent") == []
    assert await hands.state(notice["id"]) == "pending"


async def test_exhaust_of_a_notice_never_notifies(hands: Hands) -> None:
    await hands.know(a_job(NOTICE, max_attempts=1))
    claim = await hands.running(NOTICE)
    assert [m.move for m in await hands.settle(claim, FAILED)] == ["failed"]


async def test_exhaust_says_nothing_where_the_definition_wants_no_notice(hands: Hands) -> None:
    await hands.know(a_job("quiet", max_attempts=1, notify_on_failure=False))
    claim = await hands.running("quiet")
    assert [m.move for m in await hands.settle(claim, FAILED)] == ["failed"]


async def test_discard_fails_for_good_whatever_attempts_are_left(hands: Hands) -> None:
    claim = await hands.running()
    moved = await hands.settle(claim, DISCARDED)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["last_error"]) == ("failed", 1, DISCARDED.error)
    assert await hands.history(claim.id) == ["discarded"]
    assert [m.move for m in moved] == ["discarded", "noticed"]


async def test_snooze_keeps_the_attempt_and_waits(hands: Hands) -> None:
    claim = await hands.running()
    await hands.settle(claim, SNOOZED)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"]) == ("pending", 1)
    assert 299.9 < await wait_of(hands, claim.id) <= 300
    assert await hands.history(claim.id) == ["snoozed"]


async def test_release_keeps_the_attempt_and_is_due_at_once(hands: Hands) -> None:
    claim = await hands.running()
    (moved,) = await hands.settle(claim, RELEASED)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["orphanings"]) == ("pending", 1, 0)
    assert moved.due
    assert len(await hands.claim(claim.id)) == 1


# ---- interrupt -----------------------------------------------------------------------------------


async def test_interrupt_keeps_the_attempt_and_is_counted(hands: Hands) -> None:
    claim = await hands.running()
    await hands.settle(claim, INTERRUPTED)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["interruptions"]) == ("pending", 1, 1)
    assert len(await hands.claim(claim.id)) == 1


async def test_interrupt_with_on_interrupt_fail_fails(hands: Hands) -> None:
    await hands.know(a_job("fragile", on_interrupt="fail"))
    claim = await hands.running("fragile")
    moved = await hands.settle(claim, INTERRUPTED)
    assert [(m.move, m.state) for m in moved] == [("interrupted", "failed"), ("noticed", "pending")]


async def test_interrupt_is_quarantined_as_failed_from_max_interruptions_on(hands: Hands) -> None:
    await hands.sql("update task_job_definitions set max_interruptions = 3")
    claim = await hands.running(interruptions=1)
    await hands.settle(claim, INTERRUPTED)
    assert await hands.state(claim.id) == "pending"
    claim = await hands.take_again(claim.id)
    await hands.settle(claim, INTERRUPTED)
    assert await hands.state(claim.id) == "failed"


async def test_interrupt_is_an_alert_at_3(hands: Hands, told: Any) -> None:
    claim = await hands.running(interruptions=1)
    async with hands.settling():
        hands.crew.settler.put(hands.flight(claim), INTERRUPTED)
    claim = await hands.take_again(claim.id)
    assert told.of("execution.interrupted_often") == []
    async with hands.settling():
        hands.crew.settler.put(hands.flight(claim), INTERRUPTED)
    assert [e["interruptions"] for e in told.of("execution.interrupted_often")] == [3]


# ---- orphan --------------------------------------------------------------------------------------


async def bury(hands: Hands) -> None:
    """Another daemon finds that `hands` is dead."""
    undertaker = await Hands(hands.parts, "undertaker").join()
    await undertaker.silence(hands.worker_id)
    await DeadWorkers(hands.parts, undertaker.identity, undertaker.watch).tick()
    undertaker.die()


async def test_orphan_the_first_uses_an_attempt_and_runs_at_once(hands: Hands) -> None:
    claim = await hands.running()
    await bury(hands)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["orphanings"]) == ("pending", 2, 1)
    assert await wait_of(hands, claim.id) == 0
    assert await hands.at(claim.id) == "queue"
    (line,) = await hands.sql("select * from task_attempts where execution_id = $1", claim.id)
    assert (line["move"], line["reason"], line["by"]) == ("orphaned", "worker_died", "undertaker")
    assert line["error"] == "Orphaned(worker_died)"


async def test_orphan_from_the_second_on_is_backed_off(hands: Hands) -> None:
    claim = await hands.running(orphanings=1, attempt=2)
    await hands.sql("update task_job_definitions set max_attempts = 10")
    await bury(hands)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"], row["orphanings"]) == ("pending", 3, 2)
    assert 120 <= await wait_of(hands, claim.id) <= 132
    assert await hands.at(claim.id) == "delayed"


async def test_orphan_after_max_orphanings_is_quarantined_as_failed(hands: Hands) -> None:
    await hands.sql("update task_job_definitions set max_attempts = 10, max_orphanings = 3")
    claim = await hands.running(orphanings=2)
    await bury(hands)
    row = await hands.row(claim.id)
    assert (row["state"], row["orphanings"], row["attempt"]) == ("failed", 3, 1)
    assert await hands.sql("select from task_executions where job = $1", NOTICE) != []


async def test_orphan_ends_at_max_attempts_if_that_is_met_first(hands: Hands) -> None:
    claim = await hands.running(attempt=3)
    await bury(hands)
    row = await hands.row(claim.id)
    assert (row["state"], row["orphanings"]) == ("failed", 1)


async def test_orphan_with_on_interrupt_fail_fails(hands: Hands) -> None:
    await hands.know(a_job("fragile", on_interrupt="fail"))
    claim = await hands.running("fragile")
    await bury(hands)
    assert await hands.state(claim.id) == "failed"


# ---- cancel --------------------------------------------------------------------------------------


async def test_cancel_ends_what_is_pending(hands: Hands) -> None:
    sent = await hands.dispatch()
    answer = await cancel(hands.parts, [sent.execution_id], "ann", "a mistake")
    assert answer == {sent.execution_id: "cancelled"}
    assert await hands.state(sent.execution_id) == "cancelled"
    assert await hands.claim(sent.execution_id) == []
    (line,) = await hands.sql("select * from task_attempts")
    assert (line["move"], line["by"], line["reason"]) == ("cancelled", "ann", "a mistake")


async def test_cancel_asks_what_is_running(hands: Hands) -> None:
    claim = await hands.running()
    assert await cancel(hands.parts, [claim.id], "ann", "") == {claim.id: "requested"}
    row = await hands.row(claim.id)
    assert (row["state"], row["claim_token"]) == ("running", claim.token)
    assert row["abort_requested_at"] is not None


async def test_cancel_of_what_is_running_says_in_its_history_who_asked_first(hands: Hands) -> None:
    claim = await hands.running()
    await cancel(hands.parts, [claim.id], "ann", "a mistake")
    assert await cancel(hands.parts, [claim.id], "bob", "me, too") == {claim.id: "requested"}
    (line,) = await hands.sql("select * from task_attempts")
    said = ("move", "by", "reason", "attempt", "fence", "ended_at")
    assert tuple(line[name] for name in said[:3]) == ("abort_asked", "ann", "a mistake")
    row = await hands.row(claim.id)
    assert [line[name] for name in said[3:]] == [
        row["attempt"],
        row["fence"],
        row["abort_requested_at"],
    ]


async def test_cancel_says_already_with_the_state(hands: Hands) -> None:
    claim = await hands.running()
    await hands.settle(claim)
    sent = await hands.dispatch()
    await cancel(hands.parts, [sent.execution_id], "ann", "")
    answer = await cancel(hands.parts, [claim.id, sent.execution_id], "ann", "")
    assert answer == {claim.id: "already succeeded", sent.execution_id: "already cancelled"}


async def test_cancel_of_what_is_not_there_says_so(hands: Hands) -> None:
    with pytest.raises(ExecutionNotFound):
        await cancel(hands.parts, [10**9], "ann", "")


async def test_cancel_after_the_request_success_still_counts(hands: Hands) -> None:
    claim = await hands.running()
    await cancel(hands.parts, [claim.id], "ann", "")
    await hands.settle(claim)
    assert await hands.state(claim.id) == "succeeded"
    assert await hands.history(claim.id) == ["abort_asked"]


OTHER_MOVES = [
    ("retry", FAILED, {}),
    ("exhaust", FAILED, {"attempt": 3}),
    ("discard", DISCARDED, {}),
    ("snooze", SNOOZED, {}),
    ("release", RELEASED, {}),
    ("interrupt", INTERRUPTED, {}),
    ("orphan", ORPHANED, {}),
    ("orphan for good", ORPHANED, {"orphanings": 2}),
]


@pytest.mark.parametrize(
    ("outcome", "columns"),
    [pytest.param(outcome, columns, id=name) for name, outcome, columns in OTHER_MOVES],
)
async def test_cancel_after_the_request_every_other_move_is_cancelled_without_a_notice(
    hands: Hands, outcome: Outcome, columns: dict[str, Any]
) -> None:
    claim = await hands.running(**columns)
    await cancel(hands.parts, [claim.id], "ann", "")
    (moved,) = await hands.settle(claim, outcome)
    assert (moved.state, moved.move) == ("cancelled", "cancelled")
    row = await hands.row(claim.id)
    assert row["finished_at"] is not None
    assert await hands.history(claim.id) == ["abort_asked", "cancelled"]


# ---- redrive -------------------------------------------------------------------------------------


async def failed(hands: Hands, outcome: Outcome = DISCARDED, **columns: Any) -> Claim:
    claim = await hands.running(**columns)
    await hands.settle(claim, outcome)
    return claim


async def test_redrive_of_a_failed_one_is_the_next_attempt_with_its_runtime_fields_cleared(
    hands: Hands,
) -> None:
    claim = await failed(hands, attempt=2, progress=40, orphanings=1, interruptions=2)
    await redrive(hands.parts, claim.id, "ann", from_start=False)
    row = await hands.row(claim.id)
    assert (row["state"], row["attempt"]) == ("pending", 3)
    cleared = ("worker_id", "claimed_at", "deadline_at", "finished_at", "progress", "last_error")
    assert [row[name] for name in cleared] == [None] * len(cleared)
    assert (row["orphanings"], row["interruptions"]) == (0, 0)
    assert await hands.history(claim.id) == ["discarded", "redriven"]


@pytest.mark.parametrize(
    ("outcome", "columns"),
    [
        pytest.param(FAILED, {"attempt": 3}, id="failed"),
        pytest.param(ORPHANED, {"orphanings": 2}, id="orphaned"),
        pytest.param(INTERRUPTED, {"interruptions": 19}, id="interrupted"),
    ],
)
async def test_redrive_counts_an_attempt_that_stands_in_the_history(
    hands: Hands, outcome: Outcome, columns: dict[str, Any]
) -> None:
    claim = await failed(hands, outcome, **columns)
    await redrive(hands.parts, claim.id, "ann", from_start=False)
    assert (await hands.row(claim.id))["attempt"] == columns.get("attempt", 1) + 1


async def test_redrive_counts_an_attempt_that_was_cancelled_while_running(hands: Hands) -> None:
    claim = await hands.running()
    await cancel(hands.parts, [claim.id], "ann", "")
    await hands.settle(claim, FAILED)
    await redrive(hands.parts, claim.id, "ann", from_start=False)
    row = await hands.row(claim.id)
    assert (row["attempt"], row["abort_requested_at"]) == (2, None)


async def test_redrive_keeps_the_attempt_of_one_that_was_cancelled_while_pending(
    hands: Hands,
) -> None:
    sent = await hands.dispatch()
    await cancel(hands.parts, [sent.execution_id], "ann", "")
    await redrive(hands.parts, sent.execution_id, "ann", from_start=False)
    assert (await hands.row(sent.execution_id))["attempt"] == 1
    assert await hands.state(sent.execution_id) == "pending"


@pytest.mark.parametrize(("from_start", "left"), [(False, '{"page": 7}'), (True, None)])
async def test_redrive_keeps_the_cursor_unless_from_the_start(
    hands: Hands, from_start: bool, left: str | None
) -> None:
    claim = await failed(hands, cursor='{"page": 7}')
    await redrive(hands.parts, claim.id, "ann", from_start=from_start)
    assert (await hands.row(claim.id))["cursor"] == left


async def test_redrive_is_pushed_at_once_past_the_delayed_set(hands: Hands) -> None:
    sent = await hands.dispatch(delay=3600.0)
    await cancel(hands.parts, [sent.execution_id], "ann", "")
    assert await hands.at(sent.execution_id) == "delayed"
    assert await redrive(hands.parts, sent.execution_id, "ann", from_start=False)
    assert await hands.at(sent.execution_id) == "queue"
    assert len(await hands.claim(sent.execution_id)) == 1


async def test_redrive_of_a_row_emptied_by_retention_is_refused(hands: Hands) -> None:
    claim = await failed(hands)
    await hands.change(claim.id, emptied_at="sql:now()")
    with pytest.raises(ExecutionEmptied):
        await redrive(hands.parts, claim.id, "ann", from_start=False)
    assert await hands.state(claim.id) == "failed"


async def test_redrive_a_second_press_finds_it_pending_and_changes_nothing(hands: Hands) -> None:
    claim = await failed(hands)
    answers = await asyncio.gather(
        *(redrive(hands.parts, claim.id, "ann", from_start=False) for _ in range(2)),
        return_exceptions=True,
    )
    assert sorted(type(a).__name__ for a in answers) == ["InvalidMove", "bool"]
    assert (await hands.row(claim.id))["attempt"] == 2
    assert await hands.history(claim.id) == ["discarded", "redriven"]


async def test_redrive_of_what_runs_or_succeeded_or_is_not_there_is_refused(hands: Hands) -> None:
    claim = await hands.running()
    with pytest.raises(InvalidMove, match="running"):
        await redrive(hands.parts, claim.id, "ann", from_start=False)
    await hands.settle(claim)
    with pytest.raises(InvalidMove, match="succeeded"):
        await redrive(hands.parts, claim.id, "ann", from_start=False)
    with pytest.raises(ExecutionNotFound):
        await redrive(hands.parts, 10**9, "ann", from_start=False)


# ---- every move out of running -------------------------------------------------------------------

MOVES_OUT = [("succeed", SUCCEEDED, {}), *OTHER_MOVES]
OUT = pytest.mark.parametrize(
    ("outcome", "columns"), [pytest.param(o, columns, id=name) for name, o, columns in MOVES_OUT]
)


@OUT
async def test_a_move_out_of_running_with_another_token_changes_nothing(
    hands: Hands, outcome: Outcome, columns: dict[str, Any]
) -> None:
    claim = await hands.running(**columns)
    before = await hands.row(claim.id)
    assert await hands.settle(claim._replace(token=claim.token + 1), outcome) == []
    assert await hands.row(claim.id) == before
    assert await hands.history(claim.id) == []


@OUT
async def test_a_move_out_of_running_repeated_with_the_same_token_is_done_once(
    hands: Hands, outcome: Outcome, columns: dict[str, Any]
) -> None:
    claim = await hands.running(**columns)
    await hands.settle(claim, outcome)  # its reply was lost
    after = await hands.row(claim.id)
    assert after["claim_token"] is None
    assert await hands.settle(claim, outcome) == []
    assert await hands.row(claim.id) == after
    assert len(await hands.history(claim.id)) == (0 if outcome is SUCCEEDED else 1)
