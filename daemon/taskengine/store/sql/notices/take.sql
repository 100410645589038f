-- Takes the failures of a job that nobody has reported yet.
-- $1 job, $2 limit
with unreported as (
  select id from task_executions
  where state = 'failed' and job = $1 and failure_reported_at is null
  order by finished_at limit $2 for no key update skip locked
)
update task_executions e set failure_reported_at = now()
from unreported where e.id = unreported.id
returning e.id, e.type_num, e.attempt, e.last_error
