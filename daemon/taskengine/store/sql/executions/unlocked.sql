-- Which of these rows nobody has locked.
-- $1 ids
select id from task_executions where id = any($1::bigint[]) for no key update skip locked
