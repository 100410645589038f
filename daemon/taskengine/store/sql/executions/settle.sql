-- Every move out of running but success, if still under the claim: the row, its history and the failures' notices.
-- $1 ids, $2 tokens, $3 moves, $4 states, $5 delays s, $6 attempt steps, $7 interruption steps, $8 orphaning steps,
-- $9 reasons, $10 errors, $11 tracebacks, $12 progress, $13 progress messages: arrays; $14 by whom, $15 queue of notices, $16 check after s,
-- $17 whether the next claim asks verify first, or null: as it was (array)
-- Where an abort was asked for, any of these moves but to succeeded is a cancel, without a notice.
-- A row that somebody has locked fails the statement after a moment: whoever asks splits its batch.
with bound as materialized (select set_config('lock_timeout', '100ms', true)), input as materialized (
  select u.* from bound, unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::float8[], $6::int[], $7::int[], $8::int[],
      $9::text[], $10::text[], $11::text[], $12::smallint[], $13::text[], $17::boolean[])
    as u(id, token, move, state, delay, attempt_step, interruption_step, orphaning_step,
      reason, error, traceback, progress, message, verify)
), held as materialized (
  select e.id, e.attempt,
    case when e.abort_requested_at is null or u.state = 'succeeded' then u.move else 'cancelled' end as move,
    case when e.abort_requested_at is null or u.state = 'succeeded' then u.state else 'cancelled' end as state
  from task_executions e join input u on e.id = u.id and e.claim_token = u.token
  where e.id = any($1::bigint[])
  order by e.id for no key update of e
), moved as (
  update task_executions e
  set state = h.state, claim_token = null,
    finished_at = case when h.state = 'pending' then null else now() end,
    attempt = e.attempt + case when h.state = 'pending' then u.attempt_step else 0 end,
    interruptions = e.interruptions + u.interruption_step,
    orphanings = e.orphanings + u.orphaning_step,
    run_at = case when h.state = 'pending' then now() + u.delay * interval '1 s' else e.run_at end,
    check_at = now() + (u.delay + $16) * interval '1 s',
    last_error = coalesce(u.error, e.last_error), verify_next = coalesce(u.verify, e.verify_next),
    progress = coalesce(u.progress, e.progress), progress_message = coalesce(u.message, e.progress_message)
  from input u join held h on h.id = u.id
  where e.id = any($1::bigint[]) and e.id = u.id
  returning e.id, e.job, e.queue, e.state, h.move, h.attempt, e.fence, e.worker_id, e.claimed_at, e.run_at,
    e.interruptions, e.exclusive_key, u.reason, u.error, u.traceback
), history as (
  insert into task_attempts (execution_id, attempt, fence, move, reason, by, error, traceback, worker_id, started_at)
  select id, attempt, fence, move, reason, $14, error, traceback, worker_id, claimed_at from moved
), failures as (
  select distinct m.job, date_bin('60 s', now(), 'epoch'::timestamptz) + interval '60 s' as window_end
  from moved m join task_job_definitions d on d.name = m.job
  where m.state = 'failed' and d.notify_on_failure and m.job <> 'taskengine.notify-failure'
), notices as (
  insert into task_executions (job, queue, idempotency_key, subject, run_at, check_at, key_is_drawn, payload)
  select 'taskengine.notify-failure', $15,
    'notice:' || job || ':' || to_char(window_end at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'job:' || job,
    window_end, window_end + $16 * interval '1 s', true, jsonb_build_object('job', job)
  from failures order by job
  on conflict (job, idempotency_key) do nothing
  returning id, job, queue, run_at
)
select id, job, queue, state, move, reason, (extract(epoch from run_at) * 1000000)::bigint as score, run_at <= now() as due,
  interruptions, exclusive_key
from moved
union all
select id, job, queue, 'pending', 'noticed', '', (extract(epoch from run_at) * 1000000)::bigint, run_at <= now(), 0, null from notices
