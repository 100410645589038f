-- The last lines of an execution's history, the newest first, without their tracebacks.
-- $1 id, $2 limit
select a.attempt, a.fence, a.move, a.reason, a.by, left(a.error, 2000), null::text as traceback, a.started_at, a.ended_at, w.name
from task_attempts a left join task_workers w on w.id = a.worker_id
where a.execution_id = $1 order by a.id desc limit $2
