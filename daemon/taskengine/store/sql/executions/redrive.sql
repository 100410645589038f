-- Failed or cancelled back to pending. Returns what was found; `queue` is null where nothing moved.
-- $1 ids, $2 by whom, $3 from the start (clears the cursor), $4 check after s
with found as materialized (
  select id, state, attempt, fence, emptied_at is not null as emptied
  from task_executions where id = any($1::bigint[]) order by id for no key update
), moved as (
  update task_executions e
  set state = 'pending', finished_at = null, worker_id = null, claimed_at = null, deadline_at = null,
    abort_requested_at = null, failure_reported_at = null, result = null, result_error = null, last_error = null,
    progress = null, progress_message = null, verify_next = false, waits_for_key = false,
    orphanings = 0, interruptions = 0, cursor = case when $3 then null else e.cursor end,
    run_at = now(), check_at = now() + $4 * interval '1 s',
    attempt = e.attempt + case when exists (
      select from task_attempts a
      where a.execution_id = e.id and a.attempt = e.attempt and a.fence = e.fence and (
        a.move in ('failed', 'discarded', 'orphaned', 'interrupted') or (a.move = 'cancelled' and a.started_at is not null))
    ) then 1 else 0 end
  from found f
  where e.id = f.id and f.state in ('failed', 'cancelled') and not f.emptied
  returning e.id, e.queue, (extract(epoch from e.run_at) * 1000000)::bigint as score
), history as (
  insert into task_attempts (execution_id, attempt, fence, move, reason, by)
  select f.id, f.attempt, f.fence, 'redriven', 'operator', $2 from found f join moved m on m.id = f.id
)
select f.id, f.state as found, f.emptied, m.queue, m.score from found f left join moved m on m.id = f.id order by f.id
