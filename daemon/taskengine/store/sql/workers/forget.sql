-- Rows of workers long gone.
-- $1 age s
delete from task_workers w
where coalesce(w.dead_at, w.stopped_at) < now() - $1 * interval '1 s'
  and not exists (select from task_executions e where e.worker_id = w.id and e.state = 'running')
