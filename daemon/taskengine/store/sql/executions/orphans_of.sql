-- Running rows of a worker, locked, with what decides their fate.
-- $1 worker, $2 limit
select e.id, e.claim_token, e.job, e.queue, e.attempt, e.fence, e.orphanings, e.interruptions,
  d.max_attempts, d.retry_backoff, d.max_orphanings, d.max_interruptions, d.on_interrupt
from task_executions e join task_job_definitions d on d.name = e.job
where e.worker_id = $1 and e.state = 'running'
order by e.id limit $2 for no key update of e skip locked
