-- Pending, unmarked rows of one queue, oldest first: what a rebuild pushes or delays. Read by a cursor: one sort.
-- $1 queue
select id, (extract(epoch from run_at) * 1000000)::bigint as score, run_at <= now() as due
from task_executions
where state = 'pending' and not waits_for_key and queue = $1
order by run_at, id
