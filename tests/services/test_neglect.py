"""Where nobody can run it, that is an alert, not silence (I1)."""

from __future__ import annotations

from taskengine.services.neglect import Neglect
from tests.support.make import Hands, Told

ROW = (
    "insert into task_executions (job, queue, idempotency_key, run_at)"
    " values ('{job}', '{queue}', 'k', now() - interval '1 min')"
)


async def test_work_that_nobody_can_run_is_told_once_and_again_when_it_comes_back(
    hands: Hands, told: Told
) -> None:
    neglect = Neglect(hands.parts, hands.crew.identity, 1)
    await hands.sql(ROW.format(job="nobodys", queue="gone"))
    for _ in range(3):
        await neglect.tick()
    assert len(told.of("queue.unlisted")) == 1
    assert told.of("queue.unlisted")[0]["queue"] == "gone"
    assert [fields["task"] for fields in told.of("job.unknown")] == ["nobodys"]
    await hands.sql("delete from task_executions")
    await neglect.tick()
    assert neglect.last_findings == {"neglected": 0}
    await hands.sql(ROW.format(job="nobodys", queue="gone"))
    await neglect.tick()
    assert len(told.of("queue.unlisted")) == 2


async def test_a_queue_that_no_living_worker_polls_is_told(hands: Hands, told: Told) -> None:
    await hands.sql("update task_workers set queues = '{low}'")
    await hands.sql(ROW.format(job="work", queue="payroll"))
    await Neglect(hands.parts, hands.crew.identity, 1).tick()
    assert [fields["queue"] for fields in told.of("queue.unpolled")] == ["payroll"]
