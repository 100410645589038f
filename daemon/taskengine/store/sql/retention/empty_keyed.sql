-- Empties a batch of ended executions whose key a caller or a hook gave: the key stays, so that a late repeat does nothing.
-- $1 states, $2 age s, $3 limit
with old as (
  select id from task_executions
  where finished_at < now() - $2 * interval '1 s' and emptied_at is null and finished_at is not null
    and state = any($1::text[]) and not key_is_drawn
  order by finished_at limit $3 for update skip locked
), lines as (
  delete from task_execution_logs l using old where l.execution_id = old.id
)
update task_executions e
set emptied_at = now(), payload = null, cursor = null, result = null, result_error = null, progress_message = null
from old where e.id = old.id
