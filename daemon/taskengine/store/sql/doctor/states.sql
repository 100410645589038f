-- The state of these executions; those that are gone are left out.
-- $1 ids
select id, state from task_executions where id = any($1::bigint[])
