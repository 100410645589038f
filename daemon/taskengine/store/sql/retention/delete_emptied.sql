-- Deletes a batch of emptied executions whose keys are old enough.
-- $1 age s, $2 limit
with old as (
  select id from task_executions
  where emptied_at is not null and finished_at < now() - $1 * interval '1 s'
  order by finished_at limit $2 for update skip locked
)
delete from task_executions e using old where e.id = old.id
