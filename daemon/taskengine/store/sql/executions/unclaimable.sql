-- A row that cannot be claimed becomes failed with the reason, so that it holds nobody up; its history, and its notice.
-- $1 id, $2 reason, $3 by whom, $4 queue of notices, $5 check after s
-- Returns the row that moved, and the notice that was made, as settle does.
with moved as (
  update task_executions set state = 'failed', finished_at = now(), last_error = $2, waits_for_key = false
  where id = $1 and claim_token is null and finished_at is null
  returning id, job, queue, state, attempt, fence, run_at, interruptions, exclusive_key
), history as (
  insert into task_attempts (execution_id, attempt, fence, move, reason, by, error)
  select id, attempt, fence, 'unclaimable', 'data error', $3, $2 from moved
), failures as (
  select m.job, date_bin('60 s', now(), 'epoch'::timestamptz) + interval '60 s' as window_end
  from moved m join task_job_definitions d on d.name = m.job
  where d.notify_on_failure and m.job <> 'taskengine.notify-failure'
), notices as (
  insert into task_executions (job, queue, idempotency_key, subject, run_at, check_at, key_is_drawn, payload)
  select 'taskengine.notify-failure', $4,
    'notice:' || job || ':' || to_char(window_end at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'job:' || job,
    window_end, window_end + $5 * interval '1 s', true, jsonb_build_object('job', job)
  from failures
  on conflict (job, idempotency_key) do nothing
  returning id, job, queue, run_at
)
select id, job, queue, state, 'unclaimable' as move, 'data error' as reason, (extract(epoch from run_at) * 1000000)::bigint as score,
  run_at <= now() as due, interruptions, exclusive_key
from moved
union all
select id, job, queue, 'pending', 'noticed', '', (extract(epoch from run_at) * 1000000)::bigint, run_at <= now(), 0, null from notices
