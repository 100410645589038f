-- Failures of the last while that should have been reported, by job.
-- $1 seconds back, $2 seconds within which a notice may be on its way
select e.job, count(*) as failures
from task_executions e join task_job_definitions d on d.name = e.job
where e.state = 'failed' and e.failure_reported_at is null and d.notify_on_failure
  and e.finished_at > now() - $1 * interval '1 s' and e.finished_at < now() - $2 * interval '1 s'
group by e.job order by e.job
