-- Rows whose message is where it should be: look again in 15 minutes.
-- $1 ids
update task_executions set check_at = now() + interval '15 min' where id = any($1::bigint[]) and claim_token is null and finished_at is null
