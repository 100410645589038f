-- Claims reserved executions under one token, but for keyed and orphaned ones (claim_apart); repeating it with the same token
-- gives the same rows.
-- $1 ids, $2 worker, $3 token, $4 jobs known here
-- Only the primary key leads to a row: see "The planner is a trap on hot tables" in the README of this folder.
-- A row that somebody has locked fails the statement after a moment: whoever asks splits its batch.
with bound as materialized (select set_config('lock_timeout', '100ms', true)), me as materialized (
  select w.id from bound, task_workers w where w.id = $2 and w.dead_at is null for key share of w
)
update task_executions e
set state = 'running', worker_id = $2, claim_token = $3, claimed_at = now(), fence = e.fence + 1,
  deadline_at = now() + d.timeout * interval '1 s'
from task_job_definitions d
where e.id = any($1::bigint[])
  and ((e.claim_token is null and e.finished_at is null and e.run_at <= now() and e.orphanings = 0 and e.exclusive_key is null)
    or e.claim_token = $3)
  and d.name = e.job || '' and d.name = any($4::text[])
  and exists (select from me)
  and not exists (select from task_queues q where q.name = e.queue and q.paused_at is not null)
returning e.id, e.claim_token, e.job, e.queue, e.attempt, e.fence, e.orphanings, e.interruptions,
  e.idempotency_key, e.type_num, e.subject, e.payload::text, e.cursor::text, e.abort_requested_at is not null,
  case when e.type_num is null then null else
    (select array[s.type_num, s.name, s.time_zone] from stores s where s.type_num = e.type_num) end,
  (extract(epoch from e.claimed_at) - extract(epoch from e.run_at))::float8,
  d.config::text, d.timeout, d.max_attempts, d.retry_backoff, d.max_orphanings, d.max_interruptions,
  d.on_interrupt, d.max_result_bytes, e.verify_next, e.exclusive_key
