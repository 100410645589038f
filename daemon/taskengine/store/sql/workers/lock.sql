-- Locks a worker's row against its claims (which take it `for key share`).
-- $1 id
select id from task_workers where id = $1 for update
