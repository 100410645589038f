-- One execution, whole.
-- $1 id
select e.id, e.job, e.idempotency_key, e.queue, e.type_num, e.subject, e.state, e.attempt, e.orphanings, e.interruptions,
  e.fence, e.run_at, e.created_at, e.claimed_at, e.deadline_at, e.finished_at, e.scheduled_for, e.abort_requested_at,
  e.progress, e.progress_message, e.payload::text, e.cursor::text, e.result::text, e.result_error, e.last_error,
  w.name as worker, e.exclusive_key
from task_executions e left join task_workers w on w.id = e.worker_id
where e.id = $1
