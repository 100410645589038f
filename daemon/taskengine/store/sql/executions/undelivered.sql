-- Pending rows whose time to be checked has come; moves check_at on, doubling with the row's age, before anything is pushed.
-- $1 the listed queues, $2 limit, $3 check after s
with due as materialized (
  select id from task_executions
  where state = 'pending' and check_at <= now() and not waits_for_key and queue = any($1::text[])
  order by check_at limit $2 for no key update skip locked
)
update task_executions e
set check_at = now() + least(greatest(now() - e.run_at, $3 * interval '1 s'), interval '15 min')
from due where e.id = due.id
returning e.id, e.queue, (extract(epoch from e.run_at) * 1000000)::bigint as score
