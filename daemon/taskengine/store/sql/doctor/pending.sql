-- Pending, unmarked rows of a queue, oldest first, leaving out those so fresh that their message may be on its way.
-- $1 queue, $2 limit
-- Pending is said as in the index on what is due: the rows come in its order and nothing is sorted.
select id, (extract(epoch from run_at) * 1000000)::bigint as score, run_at <= now() as due
from task_executions
where queue = $1 and claim_token is null and finished_at is null and not waits_for_key
  and created_at < now() - interval '15 s' and coalesce(claimed_at, created_at) < now() - interval '15 s'
order by run_at, id limit $2
