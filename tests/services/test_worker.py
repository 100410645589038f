"""The loop "workers", and step 5 of "The way of one execution": run, under its deadline.

Slots, priority and wake-up need the whole service; what becomes of a body needs only its claim.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from taskengine.broker.wake import publish
from taskengine.config.sections import Queue
from taskengine.lifecycle import pilot
from taskengine.lifecycle.fetch import Fetcher
from taskengine.lifecycle.parts import Parts
from taskengine.model.context import JobContext
from taskengine.model.job import BaseJob, JobResult
from taskengine.model.outcome import Aborted, Discard, Retry, Snooze
from taskengine.services.promoter import Promoter
from taskengine.services.waker import Waker
from taskengine.store import queues
from tests.support.make import FAILED, Hands, Told, a_job, settled_by
from tests.support.until import until

TIMED_OUT = "timed out"


def configured(parts: Parts, **sections: Any) -> Parts:
    """The same parts under another configuration."""
    return replace(parts, config=parts.config.model_copy(update=sections))


class Gate:
    """Bodies that run until they are let go; who runs, and who has begun in which order."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.began: list[str] = []
        self.most = self.now = 0

    async def body(self, ctx: Any) -> None:
        self.began.append(ctx.queue)
        self.now += 1
        self.most = max(self.most, self.now)
        await self.open.wait()
        self.now -= 1


# ---- slots, priority, wake-up --------------------------------------------------------------------


async def test_slots_are_filled_and_never_overfilled(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        gate.now += 1
        gate.most = max(gate.most, gate.now)
        await asyncio.sleep(0.01)
        gate.now -= 1

    gate = Gate()
    await hands.know(a_job("work", body))
    for _ in range(70):
        await hands.dispatch()
    async with hands.working():
        await settled_by(hands, "work")
    assert gate.most == hands.crew.slots == 20


async def test_priority_is_strict_by_the_order_of_the_queues(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        began.append(ctx.queue)

    began: list[str] = []
    hands.crew.slots = 1
    for name in reversed(hands.parts.queues.names):
        await hands.know(a_job(f"in-{name}", body, queue=name))
        for _ in range(3):
            await hands.dispatch(f"in-{name}")
    async with hands.working():
        await until(lambda: len(began) == 12)
    assert began == [name for name in hands.parts.queues.names for _ in range(3)]


async def test_reserved_share_of_a_queue_is_left_free_by_the_others(parts: Parts) -> None:
    hands = Hands(configured(parts, queues={"payroll": Queue(reserved=2)}))
    await hands.join()
    gate = Gate()
    await hands.know(a_job("work", gate.body), a_job("pay", gate.body, queue="payroll"))
    hands.crew.slots = 4
    for _ in range(6):
        await hands.dispatch()
    async with hands.working():
        await until(lambda: len(gate.began) == 2)
        for _ in range(5):
            await hands.dispatch("pay")
        hands.crew.work.set()
        await until(lambda: len(gate.began) == 4)
        assert Counter(gate.began) == {"default": 2, "payroll": 2}
        gate.open.set()
        await settled_by(hands, "work")
        await settled_by(hands, "pay")
    assert gate.most == 4
    hands.die()


async def test_reserved_share_of_a_queue_that_is_not_polled_here_costs_no_slot(
    parts: Parts,
) -> None:
    workers = parts.config.workers.model_copy(update={"queues": ("default",)})
    hands = Hands(configured(parts, workers=workers, queues={"payroll": Queue(reserved=20)}))
    await hands.join()
    await hands.know(a_job())
    await hands.dispatch()
    async with hands.working():
        await settled_by(hands, "work")
    hands.die()


async def test_queues_not_given_to_this_daemon_are_not_polled(parts: Parts) -> None:
    workers = parts.config.workers.model_copy(update={"queues": ("default",)})
    hands = Hands(configured(parts, workers=workers))
    await hands.join()
    await hands.know(a_job(), a_job("other", queue="high"))
    other = await hands.dispatch("other")
    await hands.dispatch()
    async with hands.working():
        await settled_by(hands, "work")
    assert await hands.at(other.execution_id) == "queue"
    hands.die()


async def test_wake_up_a_push_into_an_empty_queue_starts_it_without_a_poll(parts: Parts) -> None:
    workers = parts.config.workers.model_copy(update={"poll_interval": 60.0})
    hands = Hands(configured(parts, workers=workers))
    await hands.join()
    await hands.know(a_job())
    waker = asyncio.create_task(Waker(hands.parts, hands.crew.work.set).run(lambda: None))
    async with hands.working():
        await until(lambda: subscribers(hands))
        await hands.dispatch()
        await settled_by(hands, "work")
    waker.cancel()
    await asyncio.gather(waker, return_exceptions=True)
    hands.die()


async def test_wake_up_a_resume_starts_what_was_paused_without_a_poll_or_a_beat(
    parts: Parts,
) -> None:
    workers = parts.config.workers.model_copy(update={"poll_interval": 60.0})
    hands = Hands(configured(parts, workers=workers))
    await hands.join()
    await hands.know(a_job())
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "default", "ann", "month's end")
    acquirer = hands.crew.acquirer
    waker = Waker(hands.parts, hands.crew.work.set, acquirer.forget_pauses)
    listening = asyncio.create_task(waker.run(lambda: None))
    async with hands.working():
        await until(lambda: subscribers(hands))
        await hands.dispatch()
        await until(lambda: acquirer.paused == {"default"})
        async with hands.parts.store.connection() as c:
            await queues.resume(c, "default")
        await publish(hands.parts.client, hands.parts.keys.wake)
        await settled_by(hands, "work")
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    hands.die()


def test_wake_up_a_push_into_a_paused_queue_leaves_it_paused(hands: Hands) -> None:
    """Or a message that is pushed back would be fetched again and again."""
    acquirer = hands.crew.acquirer
    acquirer.paused = {"default"}
    waker = Waker(hands.parts, hands.crew.work.set, acquirer.forget_pauses)
    waker._heard("default")
    assert acquirer.paused == {"default"}
    waker._heard("")
    assert acquirer.paused == set()


async def subscribers(hands: Hands) -> bool:
    answer = await hands.redis("PUBSUB", "NUMSUB", hands.parts.keys.wake)
    return int(answer[1]) > 0


async def test_paused_queue_is_pushed_back_not_polled_and_goes_on_when_resumed(
    hands: Hands,
) -> None:
    await hands.know(a_job(), a_job("urgent", queue="high"))
    async with hands.parts.store.connection() as c:
        await queues.pause(c, "default", "ann", "month's end")
    paused = await hands.dispatch()
    async with hands.working():
        await until(lambda: hands.crew.acquirer.paused == {"default"})
        assert await hands.at(paused.execution_id) == "queue"
        await hands.dispatch("urgent")
        hands.crew.work.set()
        await settled_by(hands, "urgent")
        async with hands.parts.store.connection() as c:
            await queues.resume(c, "default")
        await hands.beat()  # tells the worker, and wakes it
        await settled_by(hands, "work")
    assert await hands.state(paused.execution_id) == "succeeded"


async def test_unknown_class_is_left_to_a_daemon_that_knows_it(hands: Hands) -> None:
    await hands.know(a_job())
    sent = await hands.dispatch()
    newer = await Hands(hands.parts, "newer").join()
    newer.crew.acquirer.jobs = ("work",)
    hands.crew.acquirer.jobs = ("something-else",)
    async with hands.working():
        await until(lambda: is_delayed(hands, sent.execution_id))
    assert (await hands.row(sent.execution_id))["attempt"] == 1
    newer.identity.offset += 6
    async with newer.working():
        await Promoter(newer.parts, newer.identity).tick()
        newer.crew.work.set()
        await settled_by(newer, "work")
    assert (await hands.row(sent.execution_id))["worker_id"] == newer.worker_id
    newer.die()


async def is_delayed(hands: Hands, execution_id: int) -> bool:
    return await hands.at(execution_id) == "delayed"


async def test_a_dead_worker_fetches_nothing(hands: Hands) -> None:
    await hands.know(a_job())
    sent = await hands.dispatch()
    hands.identity.dead = True
    assert await Fetcher(hands.crew).turn() == 0
    assert await hands.at(sent.execution_id) == "queue"


@pytest.mark.parametrize("key", [None, "k"])
async def test_one_that_was_declared_dead_and_does_not_know_it_yet_does_not_spin(
    hands: Hands, key: str | None
) -> None:
    await hands.know(a_job())
    sent = [await hands.dispatch(exclusive_key=key) for _ in range(5)]
    await hands.sql("update task_workers set dead_at = now()")
    fetcher = Fetcher(hands.crew)
    turns = 0
    while await fetcher.turn():
        turns += 1
        assert turns < 20
    assert not await fetcher.turn()  # not even when it is woken
    assert await hands.at(sent[0].execution_id) == "queue"


async def test_a_redis_that_does_not_remember_gives_nothing_and_is_suspected(
    hands: Hands,
) -> None:
    suspicions: list[int] = []
    hands.parts.memory.on_suspicion.append(lambda: suspicions.append(1))
    await hands.redis("DEL", hands.parts.keys.epoch)
    assert await Fetcher(hands.crew).turn() == 0
    assert suspicions == [1]


# ---- the deadline --------------------------------------------------------------------------------


async def test_deadline_cancels_a_coroutine_and_it_is_retried_as_timed_out(hands: Hands) -> None:
    cleaned = []

    async def body(ctx: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(ctx.should_abort())

    await hands.know(a_job("work", body))
    row = await hands.run(timeout=0.05)
    assert (row["state"], row["attempt"], row["last_error"]) == ("pending", 2, TIMED_OUT)
    (line,) = await hands.sql("select move, reason from task_attempts")
    assert tuple(line.values()) == ("retried", "timed_out")
    assert cleaned == [True]
    assert hands.crew.inflight.busy == 0


async def test_deadline_of_a_coroutine_that_swallows_cancellation(
    hands: Hands, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settled a grace after its deadline, its slot freed, named and counted; its late result is
    fenced off."""
    monkeypatch.setattr(pilot, "_GRACE", 0.05)
    let_go = asyncio.Event()

    async def body(ctx: Any) -> str:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    await hands.know(a_job("work", body))
    row = await hands.run(timeout=0.05)
    assert (row["state"], row["last_error"]) == ("pending", TIMED_OUT)
    assert hands.crew.inflight.busy == 0
    (zombie,) = hands.crew.inflight.zombies
    assert [e["execution_id"] for e in told.of("execution.zombie")] == [row["id"]]
    assert hands.crew.inflight.known() == [row["id"]]  # no stray row, however long it lives

    await hands.make_due(row["id"])
    (current,) = await hands.claim(row["id"])
    async with hands.settling():
        let_go.set()
        await until(lambda: not hands.crew.inflight.zombies)
    assert zombie.task is not None
    await zombie.task
    assert [e["execution_id"] for e in told.of("execution.zombie_ended")] == [row["id"]]
    row = await hands.row(row["id"])
    assert (row["state"], row["claim_token"], row["result"]) == ("running", current.token, None)


async def test_deadline_of_a_thread_that_goes_on_keeps_its_slot_and_is_counted_as_lost(
    hands: Hands, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pilot, "_GRACE", 0.05)
    let_go = threading.Event()

    def body(ctx: Any) -> str:
        let_go.wait()
        return "too late"

    await hands.know(a_job("work", body))
    free = hands.crew.threads.free
    row = await hands.run(timeout=0.05)
    assert (row["state"], row["last_error"]) == ("pending", TIMED_OUT)
    assert (hands.crew.inflight.busy, hands.crew.threads.lost) == (1, 1)
    assert hands.crew.threads.free < free
    assert [e["execution_id"] for e in told.of("execution.thread_lost")] == [row["id"]]
    let_go.set()
    await until(lambda: hands.crew.threads.lost == 0)
    assert hands.crew.inflight.busy == 0
    assert hands.crew.threads.free == free
    assert await hands.row(row["id"]) == row


async def test_deadline_of_a_thread_that_looks_is_timed_out_by_itself(hands: Hands) -> None:
    def body(ctx: Any) -> None:
        while True:
            ctx.checkpoint()

    await hands.know(a_job("work", body))
    row = await hands.run(timeout=0.05)
    assert (row["state"], row["last_error"]) == ("pending", TIMED_OUT)
    assert hands.crew.threads.lost == 0


async def test_deadline_of_a_body_that_waits_for_a_thread_uses_no_attempt(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pilot, "_GRACE", 0.05)
    let_go, begun = threading.Event(), threading.Event()

    def body(ctx: Any) -> None:
        begun.set()
        let_go.wait(20)

    await hands.know(a_job("work", body))
    hands.crew.threads.resize(1)
    first = hands.fly(await hands.running())
    await until(begun.is_set)
    row = await hands.run(timeout=0.05)
    let_go.set()
    await until(lambda: first.ended)
    assert (row["state"], row["attempt"], row["last_error"]) == ("pending", 1, None)
    assert await hands.history(row["id"]) == ["released"]


async def test_deadline_met_by_a_body_that_ends_in_time_all_the_same_is_a_success(
    hands: Hands,
) -> None:
    """What returns within the grace has done its work."""

    async def body(ctx: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done in spite of it"
        return ""

    await hands.know(a_job("work", body))
    assert (await hands.run(timeout=0.05))["state"] == "succeeded"


# ---- threads -------------------------------------------------------------------------------------


async def test_sync_jobs_run_in_threads_with_the_same_context(hands: Hands) -> None:
    def body(ctx: Any) -> str:
        ctx.progress(30)
        ctx.info("in a thread")
        ctx.save_cursor({"page": 2})
        return threading.current_thread().name

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert row["state"] == "succeeded"
    assert row["result"] != f'"{threading.current_thread().name}"'
    assert (row["cursor"], row["progress"]) == ('{"page": 2}', 30)


async def test_sync_jobs_have_a_limiter_of_their_own(hands: Hands) -> None:
    most, now, lock = 0, 0, threading.Lock()
    full = threading.Event()

    def body(ctx: Any) -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
            if now == 3:
                full.set()
        full.wait(20)
        with lock:
            now -= 1

    await hands.know(a_job("work", body), a_job("quick"))
    hands.crew.threads.resize(3)
    for _ in range(8):
        await hands.dispatch()
    await hands.dispatch("quick")
    async with hands.working():
        await settled_by(hands, "quick")
        await until(full.is_set)
        await hands.sql("update task_executions set run_at = now() where state = 'pending'")
        await sweep_up(hands)
        await settled_by(hands, "work")
    assert most == 3
    attempts = await hands.sql("select max(attempt) from task_executions")
    assert attempts[0]["max"] == 1  # a full house uses no attempt


async def sweep_up(hands: Hands) -> None:
    """Promote whatever was delayed for want of a thread, until nothing is left to do."""
    hands.identity.offset += 10

    async def done() -> bool:
        await hands.sql("update task_executions set run_at = now() where state = 'pending'")
        await Promoter(hands.parts, hands.identity).tick()
        hands.crew.work.set()
        return not await hands.sql("select from task_executions where finished_at is null")

    await until(done)


async def test_without_a_free_thread_a_daemon_of_sync_jobs_only_does_not_spin(
    hands: Hands,
) -> None:
    let_go = threading.Event()

    def body(ctx: Any) -> None:
        let_go.wait(20)

    await hands.know(a_job("work", body))
    hands.crew.threads.resize(1)
    async with hands.working() as worker:
        await hands.dispatch()
        hands.crew.work.set()
        await until(lambda: hands.crew.threads.free == 0)
        second = await hands.dispatch()
        hands.crew.work.set()
        await until(lambda: len(worker._fetcher.parked) == 1)
        assert await hands.state(second.execution_id) == "pending"
        assert not await worker._fetcher.turn()
        let_go.set()
        await settled_by(hands, "work")


# ---- what a body may say -------------------------------------------------------------------------


async def test_an_exception_is_a_failed_attempt_with_its_traceback(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise ValueError("no such number")

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 2)
    (line,) = await hands.sql("select error, traceback from task_attempts")
    assert line["error"] == "ValueError: no such number"
    assert "raise ValueError" in line["traceback"]


@pytest.mark.parametrize("in_thread", [False, True])
async def test_sys_exit_in_a_job_is_a_failed_attempt_and_ends_nothing(
    hands: Hands, in_thread: bool
) -> None:
    async def coroutine(ctx: Any) -> None:
        sys.exit(3)

    def thread(ctx: Any) -> None:
        sys.exit(3)

    await hands.know(a_job("work", thread if in_thread else coroutine))
    row = await hands.run()
    assert (row["state"], row["last_error"]) == ("pending", "SystemExit: 3")


async def test_retry_sets_the_delay_of_the_next_attempt(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise Retry("the bank is closed", after=30)

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 2)
    assert row["last_error"] == "Retry: the bank is closed"
    assert (row["run_at"] - row["claimed_at"]).total_seconds() >= 30


async def test_retry_without_an_attempt_left_fails(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise Retry(after=30)

    await hands.know(a_job("work", body, max_attempts=1))
    assert (await hands.run())["state"] == "failed"


async def test_snooze_runs_again_later_with_no_attempt_used(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise Snooze(minutes=5, reason="not yet")

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 1)
    (line,) = await hands.sql("select move, reason from task_attempts")
    assert tuple(line.values()) == ("snoozed", "not yet")


async def test_discard_fails_for_good(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise Discard("no such employee")

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["last_error"]) == ("failed", "no such employee")


async def test_aborted_without_being_asked_is_a_failed_attempt(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        raise Aborted

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 2)


async def test_aborted_after_an_operators_cancel_is_cancelled(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        while True:
            ctx.checkpoint()
            await asyncio.sleep(0)

    await hands.know(a_job("work", body))
    claim = await hands.running()
    await hands.change(claim.id, abort_requested_at="sql:now()")
    async with hands.settling():
        flight = hands.fly(claim)
        await hands.beat()  # the flag comes with the beat
        await until(lambda: flight.ended)
    assert await hands.state(claim.id) == "cancelled"


async def test_an_abort_asked_for_before_the_body_began_keeps_it_from_beginning(
    hands: Hands,
) -> None:
    async def body(ctx: Any) -> None:
        raise AssertionError("it began")

    await hands.know(a_job("work", body))
    sent = await hands.dispatch()
    await hands.change(sent.execution_id, abort_requested_at="sql:now()")
    claim = await hands.take(sent.execution_id)
    assert claim.abort_requested
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: flight.ended)
    assert await hands.state(claim.id) == "cancelled"


async def test_cancel_of_a_body_that_does_not_look_cancels_its_coroutine_after_a_while(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(ctx: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(pilot, "_ABORT_GRACE", 0.01)
    await hands.know(a_job("work", body))
    claim = await hands.running()
    await hands.change(claim.id, abort_requested_at="sql:now()")
    async with hands.settling():
        flight = hands.fly(claim)
        await hands.beat()
        await until(lambda: flight.ended)
    assert await hands.state(claim.id) == "cancelled"


async def test_failure_said_by_a_job_result_is_a_failed_attempt(hands: Hands) -> None:
    async def body(ctx: Any) -> JobResult:
        return JobResult.failure("the file was empty", rows=0)

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["attempt"]) == ("pending", 2)
    assert row["last_error"] == "the file was empty"


@dataclass
class Paid:
    """A result of the user's own type."""

    amount: Decimal
    at: datetime


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        (7, "7"),
        ("text", '"text"'),
        ({"a": [1, 2.5, True, None]}, '{"a": [1, 2.5, true, null]}'),
        (JobResult.success(), None),
        (JobResult.success(rows=3), '{"rows": 3}'),
        (
            Paid(Decimal("12.340"), datetime(2026, 1, 2, tzinfo=UTC)),
            '{"at": "2026-01-02T00:00:00+00:00", "amount": "12.340"}',
        ),
    ],
    ids=["none", "number", "text", "object", "success", "success with data", "dataclass"],
)
async def test_result_is_stored_as_json(hands: Hands, value: Any, stored: str | None) -> None:
    async def body(ctx: Any) -> Any:
        return value

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert (row["state"], row["result"], row["result_error"]) == ("succeeded", stored, None)


@pytest.mark.parametrize(
    "value", ["\0", float("nan"), {1, 2}.__iter__(), "x" * 200], ids=["nul", "nan", "it", "large"]
)
async def test_result_that_cannot_be_stored_succeeds_without_it(hands: Hands, value: Any) -> None:
    async def body(ctx: Any) -> Any:
        return value

    await hands.know(a_job("work", body, max_result_bytes=100))
    row = await hands.run()
    assert (row["state"], row["result"]) == ("succeeded", None)
    assert row["result_error"]


async def test_a_payload_that_no_longer_fits_the_job_is_a_failed_attempt_that_says_so(
    hands: Hands,
) -> None:
    async def body(ctx: Any, employee_id: int) -> None: ...

    await hands.know(a_job("work", body))
    row = await hands.run()
    assert row["state"] == "pending"
    assert "employee_id" in row["last_error"]


async def test_a_class_is_a_job_as_well(hands: Hands) -> None:
    class Totals(BaseJob):
        name = "totals"
        timeout = 60

        async def handle(self) -> dict[str, Any]:
            self.progress(50)
            return {"attempt": self.attempt, "payload": self.payload("month", "none")}

    hands.parts.registry.add(Totals)
    await hands.know(hands.parts.registry["totals"])
    row = await hands.run("totals")
    assert (row["result"], row["progress"]) == ('{"attempt": 1, "payload": "none"}', 50)


# ---- what it says while it runs ------------------------------------------------------------------


async def test_progress_and_log_are_written_while_it_runs_and_with_the_settlement(
    hands: Hands,
) -> None:
    go_on = asyncio.Event()

    async def body(ctx: Any) -> None:
        ctx.progress(40, "reading")
        ctx.info("first", rows=3)
        await go_on.wait()
        ctx.progress(90, "writing")
        ctx.warning("second")

    await hands.know(a_job("work", body))
    claim = await hands.running()
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: hands.crew.inflight._changed)
        await hands.crew.scribe.tick()
        row = await hands.row(claim.id)
        assert (row["progress"], row["progress_message"]) == (40, "reading")
        assert await log_of(hands) == [("info", "first", '{"rows": 3}')]
        go_on.set()
        await until(lambda: flight.ended)
    row = await hands.row(claim.id)
    assert (row["state"], row["progress"], row["progress_message"]) == ("succeeded", 90, "writing")
    assert await log_of(hands) == [("info", "first", '{"rows": 3}'), ("warning", "second", None)]


async def log_of(hands: Hands) -> list[tuple[Any, ...]]:
    rows = await hands.sql("select level, message, fields from task_execution_logs order by id")
    return [tuple(row.values()) for row in rows]


async def test_progress_of_a_lost_claim_is_not_written(hands: Hands) -> None:
    await hands.know(a_job())
    claim = await hands.running()
    flight = hands.flight(claim)
    hands.crew.inflight.add(flight)
    flight.ctx.progress(10)
    await hands.settle(claim, FAILED)
    await hands.crew.scribe.tick()
    assert (await hands.row(claim.id))["progress"] is None


async def test_cursor_is_durable_when_awaited_and_there_in_the_next_attempt(hands: Hands) -> None:
    seen = []

    async def body(ctx: JobContext) -> None:
        seen.append(ctx.cursor)
        await ctx.save_cursor({"page": len(seen)})
        assert (await hands.row(ctx.execution_id))["cursor"] == f'{{"page": {len(seen)}}}'
        if len(seen) == 1:
            raise ValueError

    await hands.know(a_job("work", body))
    row = await hands.run(key="k")
    await hands.make_due(row["id"])
    claim = await hands.take_again(row["id"])
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: flight.ended)
    assert seen == [None, {"page": 1}]
    assert await hands.state(row["id"]) == "succeeded"


async def test_checkpoint_counts_as_a_sign_of_life_and_lets_it_go_on(hands: Hands) -> None:
    async def body(ctx: Any) -> None:
        ctx.checkpoint()

    await hands.know(a_job("work", body))
    claim = await hands.running()
    async with hands.settling():
        flight = hands.fly(claim)
        await until(lambda: flight.ended)
    assert flight.beat_at > flight.started_at
    assert await hands.state(claim.id) == "succeeded"
