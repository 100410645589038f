-- Running rows past their deadline by a whole timeout more, that their worker does not report as held; locked.
-- $1 limit
select e.id, e.claim_token, e.job, e.queue, e.attempt, e.fence, e.orphanings, e.interruptions,
  d.max_attempts, d.retry_backoff, d.max_orphanings, d.max_interruptions, d.on_interrupt
from task_executions e
join task_job_definitions d on d.name = e.job
join task_workers w on w.id = e.worker_id
where e.state = 'running' and e.deadline_at + d.timeout * interval '1 s' < now() and not (e.id = any(w.held_over_time))
order by e.id limit $1 for no key update of e skip locked
