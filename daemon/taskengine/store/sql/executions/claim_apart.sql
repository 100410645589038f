-- Claims executions that have an exclusive key or were orphaned; the same token gives the same rows again.
-- $1 ids (of each key one, the oldest), $2 worker, $3 token, $4 jobs, $5 jobs whose older rows go first
-- Skipped: a key that a running row holds, and one of which an older row waits in the same queue.
-- Locks in the order of the keys. The unique index on running keys is the guarantee behind it: two that race for one key
-- end with an error for one of them, and whoever asks splits the batch.
with bound as materialized (select set_config('lock_timeout', '100ms', true)), me as materialized (
  select w.id from bound, task_workers w where w.id = $2 and w.dead_at is null for key share of w
), wanted as materialized (
  select e.id
  from task_executions e
  where e.id = any($1::bigint[]) and exists (select from me) and (e.claim_token = $3 or (
    e.claim_token is null and e.finished_at is null and e.run_at <= now()
    and not exists (select from task_executions h where h.exclusive_key = e.exclusive_key and h.claim_token is not null)
    and not exists (
      select from task_executions o
      where o.exclusive_key = e.exclusive_key and o.queue = e.queue and o.claim_token is null and o.finished_at is null
        and (o.run_at, o.id) < (e.run_at, e.id) and o.job = any($5::text[]))))
  order by e.exclusive_key, e.id for no key update of e
)
update task_executions e
set state = 'running', worker_id = $2, claim_token = $3, claimed_at = now(), fence = e.fence + 1,
  deadline_at = now() + d.timeout * interval '1 s', waits_for_key = false
from wanted, task_job_definitions d
where e.id = any($1::bigint[]) and e.id = wanted.id
  and ((e.claim_token is null and e.finished_at is null and e.run_at <= now()) or e.claim_token = $3)
  and d.name = e.job || '' and d.name = any($4::text[])
  and not exists (select from task_queues q where q.name = e.queue and q.paused_at is not null)
returning e.id, e.claim_token, e.job, e.queue, e.attempt, e.fence, e.orphanings, e.interruptions,
  e.idempotency_key, e.type_num, e.subject, e.payload::text, e.cursor::text, e.abort_requested_at is not null,
  case when e.type_num is null then null else
    (select array[s.type_num, s.name, s.time_zone] from stores s where s.type_num = e.type_num) end,
  (extract(epoch from e.claimed_at) - extract(epoch from e.run_at))::float8,
  d.config::text, d.timeout, d.max_attempts, d.retry_backoff, d.max_orphanings, d.max_interruptions,
  d.on_interrupt, d.max_result_bytes, e.verify_next, e.exclusive_key
