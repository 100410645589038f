-- The history of one execution, oldest first.
-- $1 id
select a.attempt, a.fence, a.move, a.reason, a.by, a.error, a.traceback, a.started_at, a.ended_at, w.name as worker
from task_attempts a left join task_workers w on w.id = a.worker_id
where a.execution_id = $1 order by a.id
