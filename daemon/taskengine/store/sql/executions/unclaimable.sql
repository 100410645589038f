-- A row that cannot be claimed becomes failed with the reason, so that it holds nobody up.
-- $1 id, $2 reason, $3 by whom
with moved as (
  update task_executions set state = 'failed', finished_at = now(), last_error = $2, waits_for_key = false
  where id = $1 and claim_token is null and finished_at is null
  returning id, attempt, fence
)
insert into task_attempts (execution_id, attempt, fence, move, reason, by, error)
select id, attempt, fence, 'unclaimable', 'data error', $3, $2 from moved
