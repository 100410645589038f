-- Settles successes, if still under the claim. Returns the ids that moved.
-- $1 ids, $2 tokens, $3 results, $4 result errors, $5 progress, $6 progress messages: arrays
-- A row that somebody has locked fails the statement after a moment: whoever asks splits its batch.
with bound as materialized (select set_config('lock_timeout', '100ms', true))
update task_executions e
set state = 'succeeded', finished_at = now(), claim_token = null, result = u.result::jsonb, result_error = u.error,
  progress = coalesce(u.progress, e.progress), progress_message = coalesce(u.message, e.progress_message)
from bound, unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::smallint[], $6::text[])
  as u(id, token, result, error, progress, message)
where e.id = any($1::bigint[]) and e.id = u.id and e.claim_token = u.token
returning e.id
