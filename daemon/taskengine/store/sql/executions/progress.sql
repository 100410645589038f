-- Progress of claims still held; no indexed column is touched.
-- $1 ids, $2 tokens, $3 progress, $4 messages: arrays
update task_executions e
set progress = coalesce(u.progress, e.progress), progress_message = coalesce(u.message, e.progress_message)
from unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::text[]) as u(id, token, progress, message)
where e.id = any($1::bigint[]) and e.id = u.id and e.claim_token = u.token
