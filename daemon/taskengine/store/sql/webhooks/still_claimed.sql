-- Locks the execution, if it still runs under the token, until the transaction ends: nobody can take the claim away meanwhile.
-- $1 execution id, $2 claim token
select id from task_executions where id = $1 and claim_token = $2 for share
