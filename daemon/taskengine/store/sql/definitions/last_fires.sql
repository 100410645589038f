-- The last scheduled execution of each job, where its key is the engine's: such keys sort by their fire time.
-- $1 jobs
select j.name, e.id, e.state, e.scheduled_for
from unnest($1::text[]) as j(name)
cross join lateral (
  select id, state, scheduled_for from task_executions
  where job = j.name and idempotency_key > j.name || ':2' and idempotency_key < j.name || ':3' and scheduled_for is not null
  order by idempotency_key desc limit 1
) e
