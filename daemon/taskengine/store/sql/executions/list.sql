-- The newest executions first, filtered.
-- $1 state, $2 job, $3 queue, $4 type_num, $5 before id, $6 limit
select e.id, e.job, e.idempotency_key, e.queue, e.type_num, e.subject, e.state, e.attempt, e.orphanings, e.interruptions,
  e.fence, e.run_at, e.created_at, e.claimed_at, e.deadline_at, e.finished_at, e.scheduled_for, e.abort_requested_at,
  e.progress, e.progress_message, e.payload::text, e.cursor::text, e.result::text, e.result_error, e.last_error,
  w.name as worker, e.exclusive_key
from task_executions e left join task_workers w on w.id = e.worker_id
where ($1::text is null or e.state = $1) and ($2::text is null or e.job = $2)
  and ($3::text is null or e.queue = $3) and ($4::text is null or e.type_num = $4)
  and ($5::bigint is null or e.id < $5)
order by e.id desc limit $6
