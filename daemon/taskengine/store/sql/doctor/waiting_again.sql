-- Of these executions those that are to be delivered.
-- $1 ids
select id, queue, (extract(epoch from run_at) * 1000000)::bigint as score, run_at <= now() as due
from task_executions where id = any($1::bigint[]) and claim_token is null and finished_at is null and not waits_for_key
