-- What each queue holds: due, delayed, running, failed within the last $1 seconds; the age of its oldest due row in seconds.
-- $1 seconds back for the failed ones
-- Only rows that live or went wrong are looked at, each kind by an index of its own: the succeeded ones may be millions.
select queue, sum(waiting)::bigint as waiting, sum(delayed)::bigint as delayed, sum(running)::bigint as running,
  sum(failed)::bigint as failed, extract(epoch from now() - min(oldest))::float8 as oldest
from (
  select queue, count(*) filter (where run_at <= now()) as waiting, count(*) filter (where run_at > now()) as delayed,
    0 as running, 0 as failed, min(run_at) filter (where run_at <= now()) as oldest
  from task_executions where state = 'pending' group by queue
  union all
  select queue, 0, 0, count(*), 0, null from task_executions where state = 'running' group by queue
  union all
  select queue, 0, 0, 0, count(*), null from task_executions
  where state = 'failed' and finished_at > now() - $1 * interval '1 s' group by queue
) as counts
group by queue order by queue
