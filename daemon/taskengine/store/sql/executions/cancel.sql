-- An operator's cancel: pending ends at once, running is asked to abort. Returns what was found and what it is now.
-- Who asks a running one first stands in its history: its end as cancelled says only when.
-- $1 ids, $2 by whom, $3 reason
with found as materialized (
  select id, state, attempt, fence, abort_requested_at from task_executions where id = any($1::bigint[]) order by id for no key update
), moved as (
  update task_executions e
  set state = case when f.state = 'pending' then 'cancelled' else e.state end,
    finished_at = case when f.state = 'pending' then now() else e.finished_at end,
    abort_requested_at = coalesce(e.abort_requested_at, now()), waits_for_key = false
  from found f
  where e.id = f.id and f.state in ('pending', 'running')
  returning e.id, e.queue, e.exclusive_key
), history as (
  insert into task_attempts (execution_id, attempt, fence, move, reason, by)
  select f.id, f.attempt, f.fence, case f.state when 'pending' then 'cancelled' else 'abort_asked' end, $3, $2
  from found f where f.state = 'pending' or (f.state = 'running' and f.abort_requested_at is null)
)
select f.id, f.state as found, m.queue, m.exclusive_key from found f left join moved m on m.id = f.id order by f.id
