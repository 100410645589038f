-- Pending rows in queues that nobody reads, because they are not in the list (any more).
-- $1 the listed queues
select queue, count(*) as pending
from task_executions
where state = 'pending' and not (queue = any($1::text[]))
group by queue order by queue
