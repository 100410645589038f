-- The cursor of one claim; no row back means that the claim is lost.
-- $1 id, $2 token, $3 cursor
update task_executions set cursor = $3::jsonb where id = $1 and claim_token = $2 returning id
