-- Deletes a batch of ended executions whose key the engine drew, with their logs (the history goes by its foreign key).
-- $1 states, $2 age s, $3 limit
with old as (
  select id from task_executions
  where finished_at < now() - $2 * interval '1 s' and emptied_at is null and finished_at is not null
    and state = any($1::text[]) and key_is_drawn
  order by finished_at limit $3 for update skip locked
), lines as (
  delete from task_execution_logs l using old where l.execution_id = old.id
)
delete from task_executions e using old where e.id = old.id
