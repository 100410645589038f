-- What runs on each daemon: how many, how many of them were orphaned once, and more often.
select worker_id, count(*) as running, count(*) filter (where orphanings = 1) as once,
  count(*) filter (where orphanings > 1) as again
from task_executions where state = 'running' group by worker_id
