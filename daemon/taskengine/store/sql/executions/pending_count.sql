-- How many pending, unmarked rows each queue has, leaving out those so fresh that their message may be on its way.
-- $1 the listed queues
select queue, count(*) as pending
from task_executions
where state = 'pending' and not waits_for_key and queue = any($1::text[])
  and created_at < now() - interval '15 s' and coalesce(claimed_at, created_at) < now() - interval '15 s'
group by queue
