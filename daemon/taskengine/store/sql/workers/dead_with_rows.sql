-- Dead or stopped workers under which rows still run: a recovery that was cut short goes on here.
select distinct w.id from task_workers w
join task_executions e on e.worker_id = w.id and e.state = 'running'
where w.dead_at is not null or w.stopped_at is not null
