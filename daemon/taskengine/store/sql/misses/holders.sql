-- Who holds the keys of fire times that inserted nothing.
-- $1 job, $2 keys
select idempotency_key as key, id, state, scheduled_for, queue,
  (extract(epoch from run_at) * 1000000)::bigint as score, run_at <= now() as due
from task_executions where job = $1 and idempotency_key = any($2::text[])
