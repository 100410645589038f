-- The newest failed or cancelled executions first, filtered: only these are looked at, by an index of their own.
-- $1 state, $2 job, $3 queue, $4 type_num, $5 before id, $6 limit
with newest as materialized (
  select id from (
    select u.id from task_executions u
    where u.state in ('failed', 'cancelled') and u.state = $1::text and ($2::text is null or u.job = $2)
      and ($3::text is null or u.queue = $3) and ($4::text is null or u.type_num = $4)
      and ($5::bigint is null or u.id < $5)
    offset 0) as unwell
  order by id desc limit $6
)
select e.id, e.job, e.idempotency_key, e.queue, e.type_num, e.subject, e.state, e.attempt, e.orphanings, e.interruptions,
  e.fence, e.run_at, e.created_at, e.claimed_at, e.deadline_at, e.finished_at, e.scheduled_for, e.abort_requested_at,
  e.progress, e.progress_message, e.payload::text, e.cursor::text, e.result::text, e.result_error, e.last_error,
  w.name as worker, e.exclusive_key
from newest n join task_executions e on e.id = n.id left join task_workers w on w.id = e.worker_id
order by e.id desc
