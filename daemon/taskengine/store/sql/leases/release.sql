-- Gives leases up, so that the next daemon need not wait for their end.
-- $1 token
delete from task_leases where token = $1
