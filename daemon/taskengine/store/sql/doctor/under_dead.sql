-- Rows that run under a worker that is dead, has stopped, or has no row.
-- $1 limit
select e.id, e.worker_id, coalesce(w.name, 'a worker that is gone') as worker
from task_executions e left join task_workers w on w.id = e.worker_id
where e.state = 'running' and (w.id is null or w.dead_at is not null or w.stopped_at is not null)
order by e.id limit $1
